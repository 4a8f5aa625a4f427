import { expect, test } from 'vitest';
import { addTrade, fromChartData, fromTrades, type Candle } from '../src/lib/candles';
import type { ChartData, Trade } from '../src/lib/venue';

const HOUR = 3_600_000;

function trade(timestamp: number, price: number, amount = 1): Trade {
  return {
    trade_id: '1',
    trade_seq: 1,
    instrument_name: 'NPN_ZAR',
    timestamp,
    price,
    amount,
    direction: 'buy',
  };
}

function chart(ticks: number[], prices: number[] = ticks.map(() => 1)): ChartData {
  return {
    status: 'ok',
    ticks,
    open: prices,
    high: prices,
    low: prices,
    close: prices,
    volume: ticks.map(() => 2),
  };
}

test('parallel arrays become candles in seconds', () => {
  expect(fromChartData(chart([HOUR, HOUR + 60_000], [5, 6]))).toEqual([
    { time: 3600, open: 5, high: 5, low: 5, close: 5, volume: 2 },
    { time: 3660, open: 6, high: 6, low: 6, close: 6, volume: 2 },
  ]);
});

test('no data is no candles', () => {
  expect(fromChartData({ ...chart([]), status: 'no_data' })).toEqual([]);
});

test.each([
  ['a time twice', chart([HOUR, HOUR]), [3600]],
  ['a time going back', chart([HOUR, HOUR - 60_000, HOUR + 60_000]), [3600, 3660]],
  ['a short array', chart([HOUR, HOUR + 60_000], [5]), [3600]],
])('%s is left out', (_, data, times) => {
  expect(fromChartData(data).map((candle) => candle.time)).toEqual(times);
});

test('trades open, extend and follow candles', () => {
  const candles: Candle[] = [];
  expect(addTrade(candles, trade(HOUR + 5_000, 10, 1))).toBe(true);
  expect(addTrade(candles, trade(HOUR + 6_000, 12, 2))).toBe(true);
  expect(addTrade(candles, trade(HOUR + 59_999, 9, 3))).toBe(true);
  expect(addTrade(candles, trade(HOUR + 60_000, 11, 4))).toBe(true);
  expect(candles).toEqual([
    { time: 3600, open: 10, high: 12, low: 9, close: 9, volume: 6 },
    { time: 3660, open: 11, high: 11, low: 11, close: 11, volume: 4 },
  ]);
});

test('the volume of an inverse contract is in its base currency', () => {
  // 3,000 USD at 50,000 and at 60,000 are 0.06 + 0.05 BTC.
  const trades = [trade(HOUR, 50_000, 3_000), trade(HOUR + 1_000, 60_000, 3_000)];
  const [made] = fromTrades(trades, 60, true);
  expect(made!.volume).toBeCloseTo(0.11, 12);
  expect(fromTrades(trades, 60)[0]!.volume).toBe(6_000);
});

test('a trade of a closed candle is refused', () => {
  const candles = fromChartData(chart([HOUR + 60_000]));
  expect(addTrade(candles, trade(HOUR + 1_000, 99))).toBe(false);
  expect(candles).toEqual(fromChartData(chart([HOUR + 60_000])));
});

test('candles of five seconds are made of trades', () => {
  const made = fromTrades([trade(1_000, 10), trade(4_999, 12, 2), trade(5_000, 11), trade(21_000, 9)], 5);
  expect(made).toEqual([
    { time: 0, open: 10, high: 12, low: 10, close: 12, volume: 3 },
    { time: 5, open: 11, high: 11, low: 11, close: 11, volume: 1 },
    { time: 20, open: 9, high: 9, low: 9, close: 9, volume: 1 },
  ]);
});
