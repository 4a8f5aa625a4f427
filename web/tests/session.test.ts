import { expect, test } from 'vitest';
import {
  VenueClock,
  callCurves,
  countdown,
  permits,
  type AuctionMessage,
  type Rules,
} from '../src/lib/session';
import { phase } from '../src/lib/venue';

test('a countdown is whole seconds, never below zero', () => {
  const shown = [0, -5_000, 1, 59_000, 59_001, 61_000, 3_600_000, 86_399_000].map(countdown);
  expect(shown).toEqual(['0:00', '0:00', '0:01', '0:59', '1:00', '1:01', '1:00:00', '23:59:59']);
});

test('the clock keeps the pace of a venue whose day takes minutes', () => {
  const clock = new VenueClock();
  expect(clock.now(5_000)).toBeNull();
  clock.synchronise(1_000_000, 10_000);
  expect(clock.now(11_000)).toBe(1_001_000);
  // At speed 60 three local seconds are three venue minutes.
  clock.synchronise(1_180_000, 13_000);
  expect(clock.pace).toBe(60);
  expect(clock.now(14_000)).toBe(1_240_000);
  // A stopped venue clock changes nothing.
  const still = new VenueClock();
  still.synchronise(7, 0);
  still.synchronise(7, 5_000);
  expect(still.now(90_000)).toBe(7);
  // Another venue with an earlier time.
  clock.synchronise(500, 20_000);
  expect(clock.now(20_000)).toBe(500);
});

const outlook = (price: number, volume: number, imbalance: number): AuctionMessage => ({
  timestamp: 0,
  instrument_name: 'X',
  session: 'opening_auction',
  type: 'indicative',
  indicative_price: price,
  indicative_volume: volume,
  imbalance,
});

test('the curves are lifted by what has no price, and meet at the indicative volume', () => {
  // Bids 105 x 4, 103 x 6; offers 102 x 5, 104 x 9; three to buy at any price. At 103: 13 against
  // 5.
  const curves = callCurves(
    [
      [105, 4],
      [103, 6],
    ],
    [
      [102, 5],
      [104, 9],
    ],
    outlook(103, 5, 8),
  );
  expect(curves).toEqual({
    prices: [102, 103, 104, 105],
    buy: [13, 13, 7, 7],
    sell: [5, 5, 14, 14],
    most: 14,
    besideBuy: 3,
    besideSell: 0,
  });
  expect(callCurves([], [], null)).toBeNull();
  expect(callCurves([[10, 2]], [], null)).toMatchObject({ buy: [2], sell: [0], besideBuy: 0 });
});

const RULES: Rules = {
  order_types: [
    { type: 'limit', time_in_force: 'day', answer: 'accept', rule: 'tif-day' },
    { type: 'market', time_in_force: 'gtc', answer: 'reject', rule: 'market-does-not-wait' },
    { type: 'hidden', time_in_force: 'day', answer: 'accept', rule: 'hidden-tif' },
  ],
  sessions: [
    {
      session: 'closing_auction',
      enter: true,
      time_in_force: { day: 'active', ioc: 'reject' },
      order_types: { limit: 'active', hidden: 'reject' },
    },
    { session: 'halt', enter: false, time_in_force: { day: 'reject' }, order_types: { limit: 'reject' } },
  ],
  rules: [{ id: 'market-does-not-wait', text: 'A market order never outlives its session.' }],
};

test.each([
  ['closing_auction', 'limit', 'day', null],
  ['closing_auction', 'market', 'gtc', 'A market order never outlives its session.'],
  ['closing_auction', 'hidden', 'day', 'Not in this session: closing auction.'],
  ['closing_auction', 'limit', 'ioc', 'Not in this session: closing auction.'],
  ['halt', 'limit', 'day', 'No orders are taken: halt.'],
  ['lunch', 'limit', 'day', null],
])('%s: %s %s', (session, type, tif, why) =>
  expect(permits(RULES, session, type, tif)).toEqual({ good: why === null, why }),
);

test('a venue that tells no rules refuses nothing here', () =>
  expect(permits(null, 'halt', 'limit', 'day')).toEqual({ good: true, why: null }));

test('the badge names the session, and nothing in ordinary trading', () => {
  expect([phase('open', 'continuous'), phase('open', undefined), phase('halted', undefined)]).toEqual([
    null,
    null,
    'halted',
  ]);
  expect([phase('inactive', 'post_close'), phase('open', 'intraday_auction')]).toEqual([
    'post close',
    'intraday auction',
  ]);
});
