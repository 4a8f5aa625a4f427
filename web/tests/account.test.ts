import { expect, test } from 'vitest';
import { OrderLog, mergeFills, stateWords, termWords, type Fill, type Order } from '../src/lib/account';

function order(id: number, changes: Partial<Order> = {}): Order {
  return {
    order_id: String(id),
    order_state: 'open',
    order_type: 'limit',
    instrument_name: 'NPN_ZAR',
    direction: 'buy',
    price: 100,
    amount: 10,
    filled_amount: 0,
    time_in_force: 'good_til_cancelled',
    creation_timestamp: 1000,
    last_update_timestamp: 1000 + id,
    ...changes,
  };
}
const fill = (id: string, orderId: string, timestamp: number): Fill =>
  ({ trade_id: id, order_id: orderId, timestamp, trade_seq: timestamp }) as Fill;
const ids = (orders: Order[]) => orders.map(({ order_id }) => order_id);

test('open orders newest first; of one millisecond the higher number is the newer', () => {
  const log = new OrderLog();
  for (const one of [order(9), order(10), order(3, { creation_timestamp: 2000 })]) log.put(one);
  expect(ids(log.open())).toEqual(['3', '10', '9']);
});

test('an order that ends leaves the open ones; the newest endings come first and only so many are kept', () => {
  const log = new OrderLog();
  for (let id = 1; id <= 5; id++) log.put(order(id));
  for (const id of [2, 4, 5, 1])
    log.put(order(id, { order_state: id === 4 ? 'filled' : 'cancelled', last_update_timestamp: 5000 - id }));
  expect(ids(log.open())).toEqual(['3']);
  expect(ids(log.closed(3))).toEqual(['1', '2', '4']);
  expect(ids(log.closed(10))).toEqual(['1', '2', '4']);
});

test.each<[Partial<Order>, string]>([
  [{}, 'open'],
  [{ filled_amount: 3 }, 'partly filled'],
  [{ order_state: 'filled', filled_amount: 10 }, 'filled'],
  [{ order_state: 'cancelled', cancel_reason: 'user_request' }, 'cancelled'],
  [{ order_state: 'cancelled', filled_amount: 3 }, 'partly filled, rest cancelled'],
  [{ order_state: 'cancelled', cancel_reason: 'cancel_on_disconnect' }, 'cancelled (cancel on disconnect)'],
  [{ order_state: 'rejected' }, 'rejected'],
])('%j is %s', (changes, words) => expect(stateWords(order(1, changes))).toBe(words));

test.each<[Partial<Order>, string]>([
  [{}, 'limit GTC'],
  [{ max_show: 10 }, 'limit GTC'],
  [{ max_show: 4 }, 'limit GTC shows 4'],
  [{ post_only: true, display_amount: 2, time_in_force: 'good_til_day' }, 'limit DAY post-only shows 2'],
  [{ order_type: 'market', time_in_force: 'good_til_day' }, 'market'],
])('%j: %s', (changes, words) => expect(termWords(order(1, changes))).toBe(words));

test('a fill met twice counts once, the two sides of a self-trade count twice, newest first', () => {
  const known = [fill('7', '1', 70), fill('5', '1', 50)];
  const merged = mergeFills(known, [fill('7', '1', 70), fill('7', '2', 70), fill('9', '1', 90)], 3);
  expect(merged.map(({ trade_id, order_id }) => `${trade_id}/${order_id}`)).toEqual(['9/1', '7/1', '7/2']);
});
