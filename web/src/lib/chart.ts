import {
  CandlestickSeries,
  ColorType,
  CrosshairMode,
  HistogramSeries,
  createChart,
  type CandlestickData,
  type HistogramData,
  type UTCTimestamp,
} from 'lightweight-charts';
import type { Candle } from './candles';
import { fixed } from './format';

/** Pixels a candle takes. Wide while there are few, so that a venue in its first minutes shows something. */
const SPACING = 6;
const YOUNG_SPACING = 14;
const FEW = 40;
/** Candles of room right of the newest. */
const MARGIN = 6;

/** Candles over volume, drawn in the colours of the page. */
export class CandleChart {
  #chart;
  #prices;
  #volumes;
  #colours = readColours();
  /** Start of the newest candle drawn; everything from it on is drawn again on an update. */
  #drawnTo = -Infinity;

  constructor(element: HTMLElement, onHover: (time: number | null) => void) {
    this.#chart = createChart(element, {
      autoSize: true,
      // The notice stands in the status bar instead.
      layout: { attributionLogo: false, fontSize: 11 },
      crosshair: { mode: CrosshairMode.Normal },
      timeScale: { timeVisible: true, secondsVisible: false, rightOffset: MARGIN, minBarSpacing: 2 },
      rightPriceScale: { scaleMargins: { top: 0.1, bottom: 0.24 } },
    });
    this.#prices = this.#chart.addSeries(CandlestickSeries, { borderVisible: false });
    this.#volumes = this.#chart.addSeries(HistogramSeries, {
      priceScaleId: '',
      priceFormat: { type: 'volume' },
      lastValueVisible: false,
      priceLineVisible: false,
    });
    this.#volumes.priceScale().applyOptions({ scaleMargins: { top: 0.84, bottom: 0 } });
    this.#chart.subscribeCrosshairMove(({ time }) => onHover(typeof time === 'number' ? time : null));
    this.recolour();
  }

  /** Reads the colours of the page again, after it changed between light and dark. */
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

  setGrid(decimals: number, tick: number): void {
    const formatter = (price: number) => fixed(price, decimals);
    this.#prices.applyOptions({ priceFormat: { type: 'custom', minMove: tick, formatter } });
  }

  replace(candles: readonly Candle[]): void {
    this.#prices.setData(candles.map(toPrice));
    this.#volumes.setData(candles.map((candle) => this.#toVolume(candle)));
    this.#drawnTo = candles.at(-1)?.time ?? -Infinity;
    const barSpacing = candles.length < FEW ? YOUNG_SPACING : SPACING;
    this.#chart.timeScale().applyOptions({ barSpacing });
    this.#chart.timeScale().scrollToPosition(MARGIN, false);
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
