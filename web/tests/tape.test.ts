import { expect, test } from 'vitest';
import { after, merge } from '../src/lib/tape';
import type { Trade } from '../src/lib/venue';

const trade = (sequence: number): Trade => ({
  trade_id: String(sequence),
  trade_seq: sequence,
  instrument_name: 'NPN_ZAR',
  timestamp: sequence,
  price: 1,
  amount: 1,
  direction: 'sell',
});
const sequences = (trades: Trade[]) => trades.map((each) => each.trade_seq);

test.each([
  { name: 'into nothing', tape: [], incoming: [1, 2, 3], limit: 9, result: [3, 2, 1] },
  { name: 'newest first either way', tape: [3, 2, 1], incoming: [5, 4], limit: 9, result: [5, 4, 3, 2, 1] },
  { name: 'an overlap counts once', tape: [3, 2], incoming: [2, 3, 4], limit: 9, result: [4, 3, 2] },
  { name: 'the oldest fall off', tape: [3, 2, 1], incoming: [4], limit: 2, result: [4, 3] },
])('merge: $name', ({ tape, incoming, limit, result }) => {
  expect(sequences(merge(tape.map(trade), incoming.map(trade), limit))).toEqual(result);
});

test('after: only what is newer, oldest first', () => {
  expect(sequences(after(3, [trade(5), trade(3), trade(4), trade(1)]))).toEqual([4, 5]);
});
