import { expect, test } from 'vitest';
import {
  blank,
  columns,
  estimate,
  hint,
  params,
  portion,
  timeOfDay,
  unsendable,
  worth,
  type Form,
} from '../src/lib/ticket';
import { paidIn, type Instrument } from '../src/lib/venue';
import { SPOT } from './spot';

const PERPETUAL: Instrument = {
  ...SPOT,
  instrument_name: 'BTC-PERPETUAL',
  base_currency: 'BTC',
  quote_currency: 'USD',
  settlement_currency: 'BTC',
  instrument_type: 'reversed',
  min_trade_amount: 10,
};
const form = (changes: Partial<Form>): Form => ({ ...blank(), price: '3250.10', amount: '7', ...changes });
const COMMON = { instrument_name: 'NPN_ZAR', amount: 7 };

test.each<[string, Partial<Form>, object]>([
  ['a limit order', {}, { ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'good_til_cancelled' }],
  [
    'fill or kill',
    { terms: 'fill_or_kill' },
    { ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'fill_or_kill' },
  ],
  [
    'post-only, to be moved',
    { postOnly: true },
    {
      ...{ ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'good_til_cancelled' },
      ...{ post_only: true, reject_post_only: false },
    },
  ],
  [
    'an iceberg',
    { display: '2' },
    { ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'good_til_cancelled', display_amount: 2 },
  ],
  [
    'the box beside an unticked post-only says nothing',
    { rejectPostOnly: true },
    { ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'good_til_cancelled' },
  ],
  [
    'a market order, whatever was typed for limits',
    { type: 'market', price: 'junk', postOnly: true, display: '3', terms: 'good_til_day' },
    { ...COMMON, type: 'market' },
  ],
  [
    'a stop, that waits without a price of its own',
    { type: 'stop_market', stop: '3240', price: 'junk' },
    {
      ...{ ...COMMON, type: 'stop_market', trigger: 'last_price', trigger_price: 3240 },
      time_in_force: 'good_til_cancelled',
    },
  ],
  [
    'a stop limit for the day',
    { type: 'stop_limit', stop: '3240', terms: 'good_til_day' },
    {
      ...{ ...COMMON, type: 'stop_limit', trigger: 'last_price', trigger_price: 3240, price: 3250.1 },
      time_in_force: 'good_til_day',
    },
  ],
  [
    'a hidden order with the least it trades',
    { type: 'hidden', minimum: '3', display: '2' },
    {
      ...{ ...COMMON, type: 'limit', price: 3250.1, time_in_force: 'good_til_cancelled' },
      ...{ hidden: true, min_execution: 3 },
    },
  ],
  [
    'an order for the closing auction',
    { terms: 'atc' },
    { ...COMMON, type: 'limit', price: 3250.1, tif_ext: 'atc' },
  ],
  [
    'a market order for every auction',
    { type: 'market', terms: 'gfa' },
    { ...COMMON, type: 'market', tif_ext: 'gfa' },
  ],
  [
    'good till a date',
    { terms: 'gtd', expires: '2026-11-30' },
    { ...COMMON, type: 'limit', price: 3250.1, tif_ext: 'gtd', expires_at: '2026-11-30' },
  ],
])('%s', (_, changes, made) => expect(params(form(changes), SPOT)).toEqual({ params: made }));

test('a time of the day is one of the venue, not of this clock', () => {
  const now = Date.UTC(2031, 4, 6, 9, 0);
  expect(timeOfDay('16:30', now)).toBe(Date.UTC(2031, 4, 6, 16, 30));
  expect(timeOfDay('7:05:09', now)).toBe(Date.UTC(2031, 4, 6, 7, 5, 9));
  for (const text of ['', '24:00', '12:60', 'noon', '1230']) expect(timeOfDay(text, now)).toBeNull();
  expect(timeOfDay('16:30', null)).toBeNull();
  expect(params(form({ terms: 'gtt', expires: '16:30' }), SPOT, now)).toMatchObject({
    params: { tif_ext: 'gtt', expires_at: Date.UTC(2031, 4, 6, 16, 30) },
  });
});

test.each<[Partial<Form>, string, string]>([
  [{}, 'limit', 'gtc'],
  [{ display: '2' }, 'iceberg', 'gtc'],
  [{ type: 'market' }, 'market', 'day'],
  [{ type: 'market', terms: 'opg' }, 'market', 'opg'],
  [{ type: 'stop_market', terms: 'good_til_day' }, 'stop', 'day'],
  [{ type: 'hidden', display: '2' }, 'hidden', 'gtc'],
])('%j stands in the column %s of the row %s', (changes, type, tif) =>
  expect(columns(form(changes))).toEqual({ type, tif }),
);

test.each<[Partial<Form>, string]>([
  [{ amount: '' }, 'amount'],
  [{ amount: 'ten' }, 'amount'],
  [{ price: '' }, 'price'],
  [{ price: '1e5' }, 'price'],
  [{ display: '-1' }, 'display'],
  [{ type: 'stop_market' }, 'stop'],
  [{ type: 'hidden', minimum: 'all' }, 'minimum'],
  [{ terms: 'gtd' }, 'expires'],
  [{ terms: 'gtt', expires: '16:30' }, 'expires'],
])('%j lacks its %s', (changes, missing) => expect(params(form(changes), SPOT)).toEqual({ missing }));

test('hints name the grid, and leave an empty field alone', () => {
  expect(hint('price', form({ price: '3250.005' }), SPOT)).toBe('not a multiple of the tick, 0.01');
  expect(hint('amount', form({ amount: '7.5' }), SPOT)).toBe('not a multiple of the lot, 1');
  expect(hint('display', form({ display: 'x' }), SPOT)).toBe('not a number');
  expect(hint('price', form({ price: '' }), SPOT)).toBeNull();
  expect(hint('price', form({}), SPOT)).toBeNull();
});

test('worth: spot in the quote, an inverse contract in its base', () => {
  expect(worth(form({ price: '3250', amount: '2' }), SPOT, undefined)).toBe(6500);
  expect(worth(form({ price: '50000', amount: '100' }), PERPETUAL, undefined)).toBe(0.002);
  expect(worth(form({ type: 'market', amount: '2' }), SPOT, 3200)).toBe(6400);
  expect(worth(form({ type: 'market', amount: '2' }), SPOT, undefined)).toBeNull();
  expect(worth(form({ price: '0' }), PERPETUAL, undefined)).toBeNull();
});

test('what an order is paid with', () => {
  expect([paidIn(SPOT, 'buy'), paidIn(SPOT, 'sell'), paidIn(PERPETUAL, 'buy')]).toEqual([
    'ZAR',
    'NPN',
    'BTC',
  ]);
});

test.each<[string, Partial<Form>, string | null]>([
  ['a whole order', {}, null],
  ['no amount', { amount: ' ' }, 'Enter an amount.'],
  ['an amount of zero', { amount: '0.0' }, 'The amount must be above zero.'],
  ['a negative amount', { amount: '-5' }, 'The amount is not a number.'],
  ['a limit order without a price', { price: '' }, 'The price is missing or is not a number.'],
  ['a market order, whatever the price says', { type: 'market', price: 'x' }, null],
  ['a stop without its price', { type: 'stop_market' }, 'The stop price is missing or is not a number.'],
  ['a date that is missing', { terms: 'gtd' }, 'The expiry is missing or is not a number.'],
])('%s can be sent or says why not', (_, changes, why) => {
  expect(unsendable(form(changes), SPOT)).toBe(why);
});

test('a market order is estimated level by level, best first', () => {
  const asks = [
    [100, 5],
    [101, 3],
    [103, 10],
  ] as const;
  // 5 at 100, 3 at 101, 2 at 103: 1009 for 10.
  expect(estimate(form({ type: 'market', amount: '10' }), asks)).toEqual({
    amount: 10,
    average: 100.9,
    slippage: expect.closeTo(0.9, 9),
  });
  expect(estimate(form({ type: 'market', amount: '50' }), asks)?.amount).toBe(18);
});

test('a limit order trades at once only up to its price, and post-only never', () => {
  const asks = [
    [100, 5],
    [101, 3],
  ] as const;
  expect(estimate(form({ price: '100', amount: '8' }), asks)).toEqual({
    amount: 5,
    average: 100,
    slippage: 0,
  });
  expect(estimate(form({ price: '99', amount: '8' }), asks)).toBeNull();
  expect(estimate(form({ price: '101', amount: '8', postOnly: true }), asks)).toBeNull();
});

test('selling slips downwards', () => {
  const bids = [
    [100, 1],
    [90, 1],
  ] as const;
  const found = estimate(form({ side: 'sell', type: 'market', amount: '2' }), bids);
  expect(found).toEqual({ amount: 2, average: 95, slippage: 5 });
});

test.each<[string, Parameters<typeof portion>, string]>([
  ['half of 1000 at 3.33 buys 150 whole lots', [0.5, 1000, 3.33, 'buy', SPOT], '150'],
  ['a sale is of the base currency', [0.25, 10, 3250, 'sell', SPOT], '2'],
  ['less than a lot is nothing', [1, 100, 3250, 'buy', SPOT], ''],
  ['an inverse contract counts its quote currency', [1, 0.5, 60_000, 'sell', PERPETUAL], '30000'],
  [
    'decimal lots are not lost to binary rounding',
    [1, 0.3, 1, 'buy', { ...SPOT, min_trade_amount: 0.1 }],
    '0.3',
  ],
])('%s', (_, args, amount) => {
  expect(portion(...args)).toBe(amount);
});
