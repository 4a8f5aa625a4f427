import type { ChartData, Trade } from './venue';

export interface Candle {
  /** Start of the bucket, in seconds: the unit of the chart. */
  time: number;
  open: number;
  high: number;
  low: number;
  close: number;
  volume: number;
}

/** The intervals of the chart in seconds, and the words of their buttons. */
export const INTERVALS: readonly [seconds: number, words: string][] = [
  [1, '1s'],
  [5, '5s'],
  [60, '1m'],
  [300, '5m'],
  [900, '15m'],
  [3600, '1h'],
];

export const MINUTE = 60;

/** The venue keeps candles of whole minutes; shorter ones are made of trades. */
export function isMadeOfTrades(bucket: number): boolean {
  return bucket < MINUTE;
}

/** Candles of `bucket` seconds from trades, oldest first. */
export function fromTrades(trades: readonly Trade[], bucket: number, isInverse = false): Candle[] {
  const candles: Candle[] = [];
  for (const trade of trades) addTrade(candles, trade, bucket, isInverse);
  return candles;
}

/** Converts the venue's parallel arrays to candles, oldest first. Incomplete rows are dropped. */
export function fromChartData(data: ChartData): Candle[] {
  if (data.status !== 'ok') return [];
  const candles: Candle[] = [];
  for (const [i, tick] of data.ticks.entries()) {
    const candle = {
      time: Math.floor(tick / 1000),
      open: data.open[i],
      high: data.high[i],
      low: data.low[i],
      close: data.close[i],
      volume: data.volume[i] ?? 0,
    };
    const previous = candles.at(-1);
    // The chart refuses times that do not increase.
    if (isWhole(candle) && (previous === undefined || previous.time < candle.time)) candles.push(candle);
  }
  return candles;
}

function isWhole(candle: { [K in keyof Candle]: Candle[K] | undefined }): candle is Candle {
  return Object.values(candle).every(Number.isFinite);
}

/**
 * Adds a trade to the newest candle or opens the next one. Returns false for a trade of a closed
 * candle: trades arrive in order, so it is a duplicate. The amount of an inverse contract is in
 * quote currency, and its volume in base currency, as in the venue's candles.
 */
export function addTrade(candles: Candle[], trade: Trade, bucket = MINUTE, isInverse = false): boolean {
  const time = Math.floor(trade.timestamp / 1000 / bucket) * bucket;
  const { price } = trade;
  const volume = isInverse ? trade.amount / price : trade.amount;
  const newest = candles.at(-1);
  if (newest === undefined || newest.time < time) {
    candles.push({ time, open: price, high: price, low: price, close: price, volume });
    return true;
  }
  if (newest.time > time) return false;
  newest.high = Math.max(newest.high, price);
  newest.low = Math.min(newest.low, price);
  newest.close = price;
  newest.volume += volume;
  return true;
}
