import {
  CandlestickSeries,
  ColorType,
  CrosshairMode,
  HistogramSeries,
  LineStyle,
  TickMarkType,
  createChart,
  createSeriesMarkers,
  type CandlestickData,
  type AutoscaleInfo,
  type HistogramData,
  type IPriceLine,
  type SeriesMarker,
  type Time,
  type UTCTimestamp,
} from 'lightweight-charts';
import type { Candle } from './candles';
import { fixed } from './format';

/** An own open order that the chart shows as a line. */
export interface OrderLine {
  id: string;
  side: 'buy' | 'sell';
  price: number;
  /** Such as `buy 10`. */
  text: string;
  movable: boolean;
}

/** An own trade, in milliseconds since 1970. */
export interface FillMark {
  side: 'buy' | 'sell';
  timestamp: number;
}

/** A price with a name, such as the closing price. */
export interface PriceLabel {
  text: string;
  price: number;
}

/** How near the pointer must be to a line to take hold of it, in pixels. */
const GRIP = 6;

/** Least number of candles that are visible at first, if there are so many. */
const VISIBLE = 100;
/** Widths of a candle in pixels. It is larger while there are few candles. */
const SPACING = 6;
const YOUNG_SPACING = 14;
const FEW = 40;
/** Free space right of the newest candle, in candles. */
const MARGIN = 6;

/** Candles and volume in the colours of the page. */
export class CandleChart {
  #chart;
  #prices;
  #volumes;
  #colours = readColours();
  #markers;
  #element: HTMLElement;
  #orders: { order: OrderLine; line: IPriceLine }[] = [];
  #labels: IPriceLine[] = [];
  #fills: readonly FillMark[] = [];
  #bucket = 60;
  #tick = 0.01;
  /** The order whose line follows the pointer. */
  #dragged: { order: OrderLine; line: IPriceLine; price: number } | null = null;
  /** Start of the newest drawn candle. An update redraws from here on. */
  #drawnTo = -Infinity;

  /**
   * `onHover` gets the time under the pointer in seconds. `onMove` gets an order that was dragged
   * to another price.
   * `clock` writes the time of day of milliseconds since 1970.
   */
  constructor(
    element: HTMLElement,
    onHover: (time: number | null) => void,
    onMove: (order: OrderLine, price: number) => void,
    clock: (milliseconds: number) => string,
  ) {
    this.#element = element;
    this.#chart = createChart(element, {
      autoSize: true,
      // The status bar shows the notice instead.
      layout: { attributionLogo: false, fontSize: 11 },
      crosshair: { mode: CrosshairMode.Normal },
      localization: { timeFormatter: (time: Time) => (typeof time === 'number' ? clock(time * 1000) : '') },
      timeScale: {
        timeVisible: true,
        secondsVisible: false,
        rightOffset: MARGIN,
        minBarSpacing: 2,
        tickMarkFormatter: (time: Time, type: TickMarkType) =>
          typeof time !== 'number' || type < TickMarkType.Time
            ? null
            : clock(time * 1000).slice(0, this.#bucket < 60 ? 8 : 5),
      },
      rightPriceScale: { scaleMargins: { top: 0.1, bottom: 0.24 } },
    });
    this.#prices = this.#chart.addSeries(CandlestickSeries, { borderVisible: false });
    // Own orders near the candles are worth some height; those far away would flatten the candles.
    this.#prices.applyOptions({
      autoscaleInfoProvider: (original: () => AutoscaleInfo | null) => {
        const info = original();
        if (!info?.priceRange) return info;
        const { minValue: low, maxValue: high } = info.priceRange;
        const room = high - low;
        const near = this.#orders
          .map(({ order }) => order.price)
          .filter((price) => price >= low - room && price <= high + room);
        const priceRange = { minValue: Math.min(low, ...near), maxValue: Math.max(high, ...near) };
        return { ...info, priceRange };
      },
    });
    this.#chart.timeScale().subscribeVisibleLogicalRangeChange((range) => {
      const bars = range && this.#prices.barsInLogicalRange(range);
      // Negative numbers count the free places at the sides.
      const hidden = bars ? Math.max(0, bars.barsBefore) + Math.max(0, bars.barsAfter) : 0;
      element.dataset.visible = String(bars ? this.#prices.data().length - hidden : 0);
    });
    this.#volumes = this.#chart.addSeries(HistogramSeries, {
      priceScaleId: '',
      priceFormat: { type: 'volume' },
      lastValueVisible: false,
      priceLineVisible: false,
    });
    this.#volumes.priceScale().applyOptions({ scaleMargins: { top: 0.84, bottom: 0 } });
    this.#markers = createSeriesMarkers(this.#prices);
    this.#chart.subscribeCrosshairMove(({ time }) => onHover(typeof time === 'number' ? time : null));
    this.recolour();
    // Before the chart's own listeners, which would scroll.
    element.addEventListener('pointerdown', (event) => this.#take(event), { capture: true });
    element.addEventListener('pointermove', (event) => this.#drag(event), { capture: true });
    element.addEventListener('pointerup', () => this.#drop(onMove), { capture: true });
    element.addEventListener('pointercancel', () => this.#putBack(), { capture: true });
  }

  /** Reads the colours of the page again after a change between light and dark. */
  recolour(): void {
    const colours = (this.#colours = readColours());
    const grid = { color: colours.grid };
    this.#chart.applyOptions({
      layout: {
        background: { type: ColorType.Solid, color: colours.panel },
        textColor: colours.muted,
        fontFamily: colours.font,
      },
      grid: { vertLines: grid, horzLines: grid },
      crosshair: {
        vertLine: { color: colours.muted, labelBackgroundColor: colours.label },
        horzLine: { color: colours.muted, labelBackgroundColor: colours.label },
      },
      timeScale: { borderColor: colours.line },
      rightPriceScale: { borderColor: colours.line },
    });
    this.#prices.applyOptions({
      upColor: colours.up,
      wickUpColor: colours.up,
      downColor: colours.down,
      wickDownColor: colours.down,
      priceLineColor: colours.accent,
    });
  }

  /** Shows own open orders as lines. A line that is being dragged stays with the pointer. */
  setOrders(orders: readonly OrderLine[]): void {
    if (this.#dragged) return;
    for (const { line } of this.#orders) this.#prices.removePriceLine(line);
    this.#orders = orders.map((order) => ({
      order,
      line: this.#prices.createPriceLine({
        price: order.price,
        title: order.text,
        color: order.side === 'buy' ? this.#colours.up : this.#colours.down,
        lineStyle: LineStyle.Dashed,
        lineWidth: 1,
        axisLabelVisible: true,
      }),
    }));
  }

  setLabels(labels: readonly PriceLabel[]): void {
    for (const line of this.#labels) this.#prices.removePriceLine(line);
    this.#labels = labels.map(({ text, price }) =>
      this.#prices.createPriceLine({
        price,
        title: text,
        color: this.#colours.muted,
        lineStyle: LineStyle.Dotted,
        lineWidth: 1,
        axisLabelVisible: true,
      }),
    );
  }

  setFills(fills: readonly FillMark[]): void {
    this.#fills = fills;
    this.#drawFills();
  }

  /** `bucket` is the length of a candle in seconds. */
  setBucket(bucket: number): void {
    this.#bucket = bucket;
    this.#chart.applyOptions({ timeScale: { secondsVisible: bucket < 60 } });
    this.#drawFills();
  }

  #drawFills(): void {
    const markers = this.#fills.map(({ side, timestamp }): SeriesMarker<Time> => {
      const time = Math.floor(timestamp / 1000 / this.#bucket) * this.#bucket;
      return {
        time: time as UTCTimestamp,
        position: side === 'buy' ? 'belowBar' : 'aboveBar',
        shape: side === 'buy' ? 'arrowUp' : 'arrowDown',
        color: side === 'buy' ? this.#colours.up : this.#colours.down,
      };
    });
    this.#markers.setMarkers(markers.sort((a, b) => Number(a.time) - Number(b.time)));
    this.#element.dataset.fills = String(this.#markers.markers().length);
  }

  #at(event: PointerEvent): number {
    return event.clientY - this.#element.getBoundingClientRect().top;
  }

  #near(event: PointerEvent) {
    const y = this.#at(event);
    return this.#orders.find(({ order }) => {
      const line = this.#prices.priceToCoordinate(order.price);
      return order.movable && line !== null && Math.abs(line - y) <= GRIP;
    });
  }

  #take(event: PointerEvent): void {
    const found = this.#near(event);
    if (!found || event.button !== 0) return;
    event.preventDefault();
    this.#chart.applyOptions({ handleScroll: false, handleScale: false });
    this.#element.setPointerCapture(event.pointerId);
    this.#dragged = { ...found, price: found.order.price };
  }

  #drag(event: PointerEvent): void {
    if (!this.#dragged) {
      this.#element.style.cursor = this.#near(event) ? 'ns-resize' : '';
      return;
    }
    const price = this.#prices.coordinateToPrice(this.#at(event));
    if (price === null) return;
    const steps = Math.max(1, Math.round(price / this.#tick));
    this.#dragged.price = steps * this.#tick;
    this.#dragged.line.applyOptions({ price: this.#dragged.price });
  }

  #drop(onMove: (order: OrderLine, price: number) => void): void {
    const dragged = this.#dragged;
    if (!dragged) return;
    this.#putBack();
    if (Math.abs(dragged.price - dragged.order.price) >= this.#tick / 2) onMove(dragged.order, dragged.price);
  }

  /** The line returns to the price of the order, which moves when the venue says so. */
  #putBack(): void {
    this.#dragged?.line.applyOptions({ price: this.#dragged.order.price });
    this.#dragged = null;
    this.#chart.applyOptions({ handleScroll: true, handleScale: true });
  }

  setGrid(decimals: number, tick: number): void {
    this.#tick = tick;
    const formatter = (price: number) => fixed(price, decimals);
    this.#prices.applyOptions({ priceFormat: { type: 'custom', minMove: tick, formatter } });
  }

  replace(candles: readonly Candle[]): void {
    this.#prices.setData(candles.map(toPrice));
    this.#volumes.setData(candles.map((candle) => this.#toVolume(candle)));
    this.#drawnTo = candles.at(-1)?.time ?? -Infinity;
    const scale = this.#chart.timeScale();
    // Some candles more than asked for, because the first is cut off and the axis grows.
    const spacing = Math.min(SPACING, scale.width() / (VISIBLE + MARGIN + 4)) || SPACING;
    scale.applyOptions({ barSpacing: candles.length < FEW ? YOUNG_SPACING : spacing });
    scale.scrollToPosition(MARGIN, false);
    this.#chart.priceScale('right').applyOptions({ autoScale: true });
  }

  extend(candles: readonly Candle[]): void {
    const first = candles.findLastIndex((candle) => candle.time < this.#drawnTo) + 1;
    for (const candle of candles.slice(first)) {
      this.#prices.update(toPrice(candle));
      this.#volumes.update(this.#toVolume(candle));
      this.#drawnTo = candle.time;
    }
  }

  remove(): void {
    this.#chart.remove();
  }

  #toVolume({ time, open, close, volume }: Candle): HistogramData {
    const color = close >= open ? this.#colours.upVolume : this.#colours.downVolume;
    return { time: time as UTCTimestamp, value: volume, color };
  }
}

function toPrice({ time, open, high, low, close }: Candle): CandlestickData {
  return { time: time as UTCTimestamp, open, high, low, close };
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    panel: read('--panel'),
    grid: read('--raised'),
    line: read('--line'),
    label: read('--label'),
    muted: read('--muted'),
    accent: read('--accent'),
    up: read('--bid'),
    down: read('--ask'),
    upVolume: read('--bid-bar'),
    downVolume: read('--ask-bar'),
    font: read('--sans'),
  };
}
