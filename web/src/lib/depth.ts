import type { Ladder, Rung } from './book';

export interface Curve {
  /** Closed outlines for `path`, in pixels. */
  bids: string;
  asks: string;
  /** Positions of a few round totals. */
  heights: { y: number; total: number }[];
  prices: { x: number; price: number; anchor: 'start' | 'middle' | 'end' }[];
  /** Quantity between the middle and this position; null outside of the chart. */
  at(x: number): { x: number; price: number; total: number; side: 'bid' | 'ask' } | null;
}

/** Share of a side that is drawn. Orders further out are far from the market. */
const SHARE = 0.9;
const HEADROOM = 1.12;
/** Space for the prices under the curves, in pixels. */
const FOOT = 22;

/**
 * The cumulative amounts of both sides as steps: bids left of the middle, asks right of it, equally
 * wide.
 */
export function curve(ladder: Ladder, width: number, height: number): Curve | null {
  const { mid, bids, asks } = ladder;
  if (mid === null || bids.length === 0 || asks.length === 0) return null;
  const reach = Math.max(reachOf(bids, mid), reachOf(asks, mid));
  const within = (rung: Rung) => Math.abs(rung.price - mid) <= reach;
  const shown = { bid: bids.filter(within), ask: asks.filter(within) };
  const most = Math.max(shown.bid.at(-1)?.total ?? 0, shown.ask.at(-1)?.total ?? 0) * HEADROOM;
  if (reach <= 0 || most <= 0) return null;
  const base = height - FOOT;
  const x = (price: number) => (0.5 + (price - mid) / reach / 2) * width;
  const y = (total: number) => base * (1 - total / most);

  const outline = (rungs: Rung[], edge: number): string => {
    if (rungs.length === 0) return '';
    const start = x(rungs[0]!.price);
    const steps = rungs.map((rung) => `H${round(x(rung.price))}V${round(y(rung.total))}`).join('');
    return `M${round(start)} ${base}${steps}H${edge}V${base}Z`;
  };

  return {
    bids: outline(shown.bid, 0),
    asks: outline(shown.ask, width),
    heights: roundSteps(most).map((total) => ({ y: round(y(total)), total })),
    prices: [
      { x: 8, price: mid - reach, anchor: 'start' },
      { x: width / 2, price: mid, anchor: 'middle' },
      { x: width - 8, price: mid + reach, anchor: 'end' },
    ],
    at(place) {
      const price = mid + (place / width - 0.5) * 2 * reach;
      const side = price < mid ? 'bid' : 'ask';
      const covered = shown[side].filter((rung) => (price < mid ? rung.price >= price : rung.price <= price));
      const last = covered.at(-1);
      return last ? { x: place, price, total: last.total, side } : null;
    },
  };
}

/** Distance from the middle that covers most of the side. */
function reachOf(rungs: Rung[], mid: number): number {
  const whole = rungs.at(-1)?.total ?? 0;
  const last = rungs.find((rung) => rung.total >= whole * SHARE) ?? rungs.at(-1);
  return last ? Math.abs(last.price - mid) : 0;
}

/** Two to five round numbers below `most`, with steps of 1, 2 or 5 times a power of ten. */
function roundSteps(most: number): number[] {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? rough;
  const steps = [];
  for (let total = step; total < most; total += step) steps.push(total);
  return steps;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
