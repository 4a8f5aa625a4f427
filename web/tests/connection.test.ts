import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FIRST_DELAY, LONGEST_DELAY, delay } from '../src/lib/backoff';
import { Connection, type Listener } from '../src/lib/connection';
import { FakeSocket } from './socket';

let sockets: FakeSocket[];
let events: string[];
let connection: Connection;

const last = () => sockets.at(-1)!;

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  events = [];
  const listener: Listener = {
    status: ({ phase, retryAt }) => events.push(retryAt === null ? phase : `${phase} waits`),
    live: () => events.push('LIVE'),
    lost: () => events.push('LOST'),
    roundTrip: () => undefined,
    problem: (text) => events.push(text),
  };
  connection = new Connection(() => {
    sockets.push(new FakeSocket());
    return last();
  }, listener);
});

afterEach(() => {
  connection.stop();
  vi.useRealTimers();
});

async function goLive(): Promise<FakeSocket> {
  last().open();
  await last().answer('public/test');
  return last();
}

describe('coming and going', () => {
  test('live only after the first answer', async () => {
    connection.start();
    last().open();
    expect(events).toEqual(['connecting']);
    await last().answer('public/test');
    expect(events).toEqual(['connecting', 'live', 'LIVE']);
    expect(connection.live).toBe(true);
  });

  test('a lost socket is replaced after the back-off, and channels are joined again', async () => {
    connection.start();
    const first = await goLive();
    const seen: unknown[] = [];
    connection.subscribe(['book.A.100ms'], (data) => seen.push(data));
    await first.answer('public/subscribe', ['book.A.100ms']);
    events.length = 0;
    first.fail();
    expect(events).toEqual(['LOST', 'reconnecting waits']);
    await vi.advanceTimersByTimeAsync(LONGEST_DELAY);
    expect(sockets.length).toBe(2);
    const second = await goLive();
    expect(second.sent).toMatchObject([
      { method: 'public/subscribe', params: { channels: ['book.A.100ms'] } },
    ]);
    await second.say({ method: 'subscription', params: { channel: 'book.A.100ms', data: 42 } });
    expect(seen).toEqual([42]);
    expect(events).toEqual(['LOST', 'reconnecting waits', 'reconnecting', 'live', 'LIVE']);
  });

  test('calls under way fail when the socket is lost, and a call without one fails at once', async () => {
    connection.start();
    const socket = await goLive();
    const pending = connection.call('public/get_instruments');
    socket.fail();
    await expect(pending).rejects.toThrow('connection lost');
    await expect(connection.call('public/test')).rejects.toThrow('not connected');
  });

  test('a socket that is still connecting takes no calls', async () => {
    connection.start();
    await expect(connection.call('public/test')).rejects.toThrow('not connected');
    expect(last().sent).toEqual([]);
  });

  test('becomes offline after a long time without an answer, and keeps trying', async () => {
    connection.start();
    for (let i = 0; i < 9; i++) {
      last().fail();
      await vi.advanceTimersByTimeAsync(LONGEST_DELAY);
    }
    expect(events.at(-1)).toBe('offline');
    expect(sockets.length).toBe(10);
    await goLive();
    expect(events.slice(-2)).toEqual(['live', 'LIVE']);
  });

  test('a ping without an answer ends a half-open connection', async () => {
    connection.start();
    const socket = await goLive();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(socket.methods).toEqual(['public/test']);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(socket.closed).toBe(true);
    expect(events).toContain('LOST');
  });

  test('an attempt that hangs is given up', async () => {
    connection.start();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(sockets[0]?.closed).toBe(true);
    await vi.advanceTimersByTimeAsync(LONGEST_DELAY);
    expect(sockets.length).toBe(2);
  });

  test('retry ends the wait, but does not open a second socket beside a live one', async () => {
    connection.start();
    last().fail();
    connection.retry();
    expect(sockets.length).toBe(2);
    connection.retry();
    expect(sockets.length).toBe(2);
  });
});

describe('channels', () => {
  test('leaving stops the handler and tells the venue', async () => {
    connection.start();
    const socket = await goLive();
    const seen: unknown[] = [];
    const close = connection.subscribe(['trades.A.100ms'], (data) => seen.push(data));
    close();
    await socket.say({ method: 'subscription', params: { channel: 'trades.A.100ms', data: 1 } });
    expect(socket.methods).toEqual(['public/subscribe', 'public/unsubscribe']);
    expect(seen).toEqual([]);
  });

  test('leaving a channel keeps its new subscriber', async () => {
    connection.start();
    const socket = await goLive();
    const seen: unknown[] = [];
    const close = connection.subscribe(['trades.A.100ms'], () => seen.push('old'));
    connection.subscribe(['trades.A.100ms'], () => seen.push('new'));
    close();
    await socket.say({ method: 'subscription', params: { channel: 'trades.A.100ms', data: 1 } });
    expect(seen).toEqual(['new']);
  });

  test('a resubscription leaves before it joins', async () => {
    connection.start();
    const socket = await goLive();
    connection.resubscribe(['book.A.100ms']);
    expect(socket.methods).toEqual(['public/unsubscribe', 'public/subscribe']);
  });

  test('a channel the venue does not grant is reported', async () => {
    connection.start();
    const socket = await goLive();
    connection.subscribe(['book.A.100ms', 'book.B.100ms'], () => undefined);
    await socket.answer('public/subscribe', ['book.A.100ms']);
    expect(events.at(-1)).toBe('Not offered by the venue: book.B.100ms');
  });
});

describe('in the name of an account', () => {
  const greeted = (hello: () => Promise<unknown>) => {
    connection = new Connection(
      () => {
        sockets.push(new FakeSocket());
        return last();
      },
      {
        ...{ status: () => undefined, roundTrip: () => undefined, lost: () => events.push('LOST') },
        ...{ live: () => events.push('LIVE'), problem: (text) => events.push(text) },
        message: () => events.push('frame'),
      },
      { scope: 'private', hello },
    );
    connection.start();
  };

  test('it is live once its own first question is answered, and joins private channels', async () => {
    greeted(() => connection.call('public/auth', {}));
    connection.subscribe(['user.orders.any.any.raw'], () => undefined);
    last().open();
    expect(last().methods).toEqual(['public/auth']);
    await last().answer('public/auth');
    expect(events).toEqual(['frame', 'LIVE']);
    expect(last().methods).toEqual(['private/subscribe']);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(last().methods).toEqual(['private/subscribe', 'public/test']);
  });

  test('each new socket is greeted again', async () => {
    greeted(() => connection.call('public/auth', {}));
    last().open();
    await last().answer('public/auth');
    last().fail();
    await vi.advanceTimersByTimeAsync(LONGEST_DELAY);
    last().open();
    expect(sockets.length).toBe(2);
    expect(last().methods).toEqual(['public/auth']);
  });

  test('only the handler of a refused channel is called', async () => {
    greeted(() => connection.call('public/auth', {}));
    last().open();
    await last().answer('public/auth');
    let without = 0;
    connection.subscribe(
      ['user.portfolio.any'],
      () => undefined,
      () => without++,
    );
    await last().answer('private/subscribe', []);
    expect(without).toBe(1);
    expect(events).toEqual(['frame', 'LIVE', 'frame']);
  });
});

describe('back-off', () => {
  test.each([
    [0, 250, 250],
    [1, 250, 500],
    [2, 500, 1000],
    [4, 2000, 4000],
    [5, 2500, 5000],
    [500, 2500, 5000],
  ])('attempt %i waits from %i to %i ms', (attempt, least, most) => {
    expect(delay(attempt, () => 0)).toBe(Math.max(FIRST_DELAY, least));
    expect(delay(attempt, () => 1)).toBe(Math.min(LONGEST_DELAY, most));
  });
});
