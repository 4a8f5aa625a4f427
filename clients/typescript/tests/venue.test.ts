// Runs against a venue without order flow, and against relays in front of it that inject one fault
// each. tests/test_clients_packages.py starts them. Each variable has the URL of one of them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import {
  type Fill,
  type NewOrder,
  NotSent,
  type Order,
  OrderBook,
  OrderUnknown,
  Refused,
  Venue,
} from '../src/index.js';
import { sleep } from '../src/settings.js';

const venues: Venue[] = [];
after(() => venues.forEach((venue) => venue.close()));

async function connect(variable: string, account: string, cuts: string[] = []): Promise<Venue> {
  const url = process.env[variable];
  assert.ok(url, `${variable} is not set`);
  const onState = (state: string) => void (state === 'reconnecting' && cuts.push(state));
  const login = { clientId: account, clientSecret: `${account}-secret` };
  const venue = await Venue.connect({ url, ...login, timeoutMs: 60_000, onState });
  venues.push(venue);
  return venue;
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `never: ${condition}`);
    await sleep(10);
  }
}

const bid = (instrument_name: string, price: number) => ({
  side: 'buy' as const,
  instrument_name,
  amount: 3,
  price,
});

/** Places an order and expects that its answer is lost. */
async function lose(venue: Venue, order: NewOrder): Promise<OrderUnknown> {
  try {
    await venue.place(order);
  } catch (error) {
    assert.ok(error instanceof OrderUnknown, String(error));
    return error;
  }
  assert.fail('the order was answered');
}

test('orders are placed, amended, cancelled and refused, and own notices report it', async () => {
  const venue = await connect('PITWIRE_URL', 'demo-a');
  const other = await connect('PITWIRE_URL', 'demo-b');
  const orders: Order[] = [];
  const fills: Fill[] = [];
  await venue.followOwn({ order: (order) => orders.push(order), trade: (fill) => fills.push(fill) });

  const { order, trades } = await venue.place(bid('NPN_ZAR', 3000));
  assert.deepEqual([order.order_state, order.amount, order.price, trades], ['open', 3, 3000, []]);
  const amended = await venue.amend(order.order_id, { amount: 2, price: 3001 });
  assert.deepEqual([amended.order.amount, amended.order.price], [2, 3001]);
  const sale = { side: 'sell' as const, instrument_name: 'NPN_ZAR', amount: 1, price: 3001 };
  assert.equal((await other.place(sale)).trades.length, 1);
  assert.equal((await venue.order(order.order_id)).filled_amount, 1);
  assert.equal((await venue.cancel(order.order_id)).order_state, 'cancelled');
  await until(() => orders.at(-1)?.order_state === 'cancelled');
  assert.deepEqual(
    fills.map(({ order_id, amount, price }) => [order_id, amount, price]),
    [[order.order_id, 1, 3001]],
  );
  assert.deepEqual(await venue.openOrders(), []);

  await assert.rejects(venue.cancel(order.order_id), Refused);
  await assert.rejects(venue.place({ ...bid('NPN_ZAR', 3000), amount: -1 }), (error: Refused) => {
    return error instanceof Refused && error.code !== 0 && error.remedy !== '';
  });
});

test('a wrong secret is refused', async () => {
  const login = { url: process.env['PITWIRE_URL']!, clientId: 'demo-a', clientSecret: 'wrong' };
  await assert.rejects(Venue.connect(login), Refused);
});

test('a book with a lost change is fetched again', async () => {
  const venue = await connect('PITWIRE_GAP', 'demo-a');
  const maker = await connect('PITWIRE_URL', 'demo-b');
  let gaps = 0;
  const count = ({ changeId }: OrderBook) => void (gaps += Number(changeId === undefined));
  const { book, unsubscribe } = await venue.followBook('SBK_ZAR', count, 'raw');
  await until(() => book.changeId !== undefined);
  // The relay drops the message of the first change, so the second does not follow the snapshot.
  await maker.place(bid('SBK_ZAR', 150));
  await maker.place(bid('SBK_ZAR', 151));
  await until(() => book.bids.length === 2);
  await maker.place(bid('SBK_ZAR', 149));
  await until(() => book.bids.length === 3);
  assert.equal(gaps, 1);
  const whole = await maker.call('public/get_order_book', { instrument_name: 'SBK_ZAR', depth: 20 });
  assert.deepEqual([book.bids, book.asks], [whole.bids, whole.asks]);
  await unsubscribe();
});

test('a repeated change is ignored, and a gap or an unknown price empties the book', () => {
  const book = new OrderBook();
  const snapshot = {
    change_id: 5,
    bids: [
      ['new', 9, 1],
      ['new', 10.5, 3],
    ],
    asks: [['new', 11, 2]],
  } as any;
  assert.ok(book.apply(snapshot));
  assert.deepEqual(book.bids, [
    [10.5, 3],
    [9, 1],
  ]);
  const change = {
    change_id: 9,
    prev_change_id: 5,
    asks: [],
    bids: [
      ['change', 10.5, 4],
      ['delete', 9, 0],
    ],
  };
  assert.ok(book.apply(change as any));
  assert.ok(!book.apply(change as any));
  assert.deepEqual([book.bids, book.changeId], [[[10.5, 4]], 9]);
  for (const wrong of [
    { prev_change_id: 8, bids: [] },
    { prev_change_id: 9, bids: [['delete', 8, 0]] },
  ]) {
    assert.ok(book.apply({ ...snapshot, change_id: 9 }));
    assert.throws(() => book.apply({ change_id: 12, asks: [], ...wrong } as any));
    assert.deepEqual([book.bids, book.changeId], [[], undefined]);
    assert.ok(!book.apply({ ...change, change_id: 13, prev_change_id: 12 } as any));
  }
});

test('an order whose answer is lost is unknown until a query finds it', async () => {
  const venue = await connect('PITWIRE_LOST_ANSWER', 'demo-a');
  const { label } = await lose(venue, bid('AGL_ZAR', 400));
  const order = await venue.resolve(label);
  assert.equal(order?.order_state, 'open');
  const open = (await venue.openOrders()).filter(({ instrument_name }) => instrument_name === 'AGL_ZAR');
  assert.deepEqual(
    open.map(({ order_id }) => order_id),
    [order?.order_id],
  );
});

test('an order whose request is lost was not entered', async () => {
  const venue = await connect('PITWIRE_LOST_REQUEST', 'demo-a');
  const valid_until = Math.round(venue.venueClockMs()) + 500;
  const { label } = await lose(venue, { ...bid('BHG_ZAR', 400), valid_until });
  assert.equal(await venue.resolve(label), undefined);
  assert.ok(venue.venueClockMs() > valid_until, '"not found" is believed only after valid_until');
});

test('after a cut the missed notices arrive once and in order', async () => {
  const cuts: string[] = [];
  const venue = await connect('PITWIRE_CUT', 'demo-a', cuts);
  const trader = await connect('PITWIRE_URL', 'demo-a');
  const prices: unknown[] = [];
  const restarts: unknown[] = [];
  await venue.followOwn({
    order: (order) => void (order.instrument_name === 'SOL_ZAR' && prices.push(order.price)),
    restarted: (restart) => restarts.push(restart),
  });
  // The relay cuts the connection in place of a notice and refuses the next two connections.
  const expected = Array.from({ length: 12 }, (_, index) => 100 + index);
  for (const price of expected) await trader.place(bid('SOL_ZAR', price));
  await until(() => prices.length >= expected.length);
  assert.deepEqual([prices, restarts], [expected, []]);
  assert.ok(cuts.length >= 3, 'it tried again after each refused connection');
  assert.equal((await venue.call('public/test')).version !== undefined, true);
});

test('a closed venue sends nothing', async () => {
  const venue = await connect('PITWIRE_URL', 'demo-a');
  venue.close();
  await assert.rejects(venue.openOrders(), NotSent);
});
