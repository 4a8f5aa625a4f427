import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LONGEST_DELAY } from '../src/lib/backoff';
import { Member } from '../src/stores/member.svelte';
import { FakeSocket } from './socket';

let sockets: FakeSocket[];
let member: Member;

const last = () => sockets.at(-1)!;
const SESSION = { access_token: 'a', refresh_token: 'r', expires_in: 900, scope: 'trade:read_write' };
const ORDER = {
  ...{
    order_id: '1',
    order_state: 'open',
    order_type: 'limit',
    instrument_name: 'NPN_ZAR',
    direction: 'buy',
  },
  ...{ price: 100, amount: 10, filled_amount: 0, time_in_force: 'good_til_cancelled' },
  ...{ creation_timestamp: 1, last_update_timestamp: 1 },
};
const notice = (channel: string, data: object) =>
  last().say({ method: 'subscription', params: { channel, data } });
const settle = () => vi.advanceTimersByTimeAsync(50);

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  member = new Member(() => {
    sockets.push(new FakeSocket());
    return last();
  });
});

afterEach(() => {
  member.logout();
  vi.useRealTimers();
});

async function enter(session: object = SESSION, offered?: string[]): Promise<void> {
  last().open();
  await last().answer('public/auth', session);
  const asked = last().sent.find(({ method }) => method === 'private/subscribe')?.params.channels ?? [];
  await last().answer('private/subscribe', offered ?? asked);
}

async function answerAll(open: object[] = []): Promise<void> {
  await last().answer('private/get_order_history_by_currency', []);
  await last().answer('private/get_open_orders', open);
  await last().answer('private/get_user_trades_by_currency', { trades: [] });
  await last().answer('public/get_currencies', [{ currency: 'ZAR', decimals: 2 }]);
  await last().answer('private/get_account_summaries', { summaries: [] });
  await last().answer('private/get_positions', []);
  await settle();
}

test('a login says who it is, and is in once the venue agreed', async () => {
  member.login('demo-a', 'secret');
  expect(member.phase).toBe('entering');
  last().open();
  expect(last().sent[0]?.params).toEqual({
    grant_type: 'client_credentials',
    client_id: 'demo-a',
    client_secret: 'secret',
    // A named session: its tokens outlive the connection.
    scope: expect.stringMatching(/^session:page-[a-z0-9]+$/),
  });
  await last().answer('public/auth', SESSION);
  expect([member.phase, member.name, member.operator]).toEqual(['in', 'demo-a', false]);
});

test('a reload of the tab continues the login by its newest token, and a logout ends that', async () => {
  const saved = new Map<string, string>();
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => saved.get(key) ?? null,
    setItem: (key: string, value: string) => saved.set(key, value),
    removeItem: (key: string) => saved.delete(key),
  });
  member.login('demo-a', 'secret');
  await enter({ ...SESSION, refresh_token: 'first' });
  member.stop();
  member.resume();
  last().open();
  expect(last().sent[0]?.params).toEqual({ grant_type: 'refresh_token', refresh_token: 'first' });
  await last().answer('public/auth', { ...SESSION, refresh_token: 'second' });
  expect([member.phase, member.name]).toEqual(['in', 'demo-a']);
  expect([...saved.values()].join()).not.toContain('secret');
  expect([...saved.values()].join()).toContain('second');
  member.logout();
  expect(saved.size).toBe(0);
  vi.unstubAllGlobals();
});

test('the history includes orders that were cancelled without a fill', async () => {
  member.login('demo-a', 'secret');
  await enter();
  const asked = last().sent.find(({ method }) => method === 'private/get_order_history_by_currency');
  expect(asked?.params).toMatchObject({ include_unfilled: true });
});

test('only the operator scope makes an operator', async () => {
  member.login('demo-operator', 'secret');
  await enter({ ...SESSION, scope: 'connection trade:read_write operator:read_write' });
  expect(member.operator).toBe(true);
});

test('a refused login is notice and not tried again', async () => {
  member.login('demo-a', 'wrong');
  last().open();
  await last().refuse('public/auth', { code: 13004, message: 'invalid_credentials', data: { reason: 'no' } });
  expect([member.phase, member.refusal?.reason]).toEqual(['out', 'no']);
  await vi.advanceTimersByTimeAsync(LONGEST_DELAY * 3);
  expect(sockets.length).toBe(1);
  expect(sockets[0]?.closed).toBe(true);
});

test('orders: those that rest are read, then kept by the stream', async () => {
  member.login('demo-a', 'secret');
  await enter();
  await answerAll([ORDER]);
  expect(member.open.map(({ order_id }) => order_id)).toEqual(['1']);
  await notice('user.orders.any.any.raw', { ...ORDER, order_id: '2', creation_timestamp: 2 });
  await notice('user.orders.any.any.raw', { ...ORDER, order_state: 'cancelled' });
  await settle();
  expect(member.open.map(({ order_id }) => order_id)).toEqual(['2']);
  expect(member.closed.map(({ order_id }) => order_id)).toEqual(['1']);
});

test('balances come by their channel', async () => {
  member.login('demo-a', 'secret');
  await enter();
  await answerAll();
  await notice('user.portfolio.any', { currency: 'ZAR', equity: 5, balance: 5, available_funds: 5 });
  await notice('user.portfolio.any', { currency: 'NPN', equity: 1, balance: 1, available_funds: 1 });
  await notice('user.portfolio.any', { currency: 'ZAR', equity: 4, balance: 4, available_funds: 3 });
  expect(member.balances.map(({ currency, balance }) => [currency, balance])).toEqual([
    ['ZAR', 4],
    ['NPN', 1],
  ]);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(last().methods).not.toContain('private/get_account_summaries');
});

test('a venue without that channel is asked for balances instead', async () => {
  member.login('demo-a', 'secret');
  await enter(SESSION, ['user.orders.any.any.raw', 'user.trades.any.any.raw']);
  await answerAll();
  await vi.advanceTimersByTimeAsync(2_000);
  await last().answer('private/get_account_summaries', {
    summaries: [{ currency: 'ZAR', equity: 9, balance: 9, available_funds: 9 }],
  });
  expect(member.balances[0]?.balance).toBe(9);
});

test('a lost venue leaves the member away, and it enters again by itself', async () => {
  member.login('demo-a', 'secret');
  await enter();
  await answerAll([ORDER]);
  last().fail();
  expect(member.phase).toBe('away');
  await vi.advanceTimersByTimeAsync(LONGEST_DELAY);
  expect(sockets.length).toBe(2);
  await enter();
  expect(member.phase).toBe('in');
  await answerAll([]);
  expect(member.open).toEqual([]);
});

test('the session is renewed before it ends', async () => {
  member.login('demo-a', 'secret');
  await enter({ ...SESSION, expires_in: 5 });
  await answerAll();
  await vi.advanceTimersByTimeAsync(4_100);
  const renewal = last().sent.find(({ method }) => method === 'public/auth');
  expect(renewal?.params).toEqual({ grant_type: 'refresh_token', refresh_token: 'r' });
});

test('logging out closes the socket, and what still arrives for it changes nothing', async () => {
  member.login('demo-a', 'secret');
  await enter();
  const socket = last();
  member.logout();
  await socket.say({ method: 'subscription', params: { channel: 'user.orders.any.any.raw', data: ORDER } });
  await settle();
  expect(socket.closed).toBe(true);
  expect([member.phase, member.name, member.open.length, member.balances.length]).toEqual([
    'out',
    null,
    0,
    0,
  ]);
  await expect(member.call('private/get_open_orders')).rejects.toThrow('not logged in');
});
