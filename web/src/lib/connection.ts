import { delay } from './backoff';
import { decode, encode } from './rpc';

/**
 * `offline` is a long `reconnecting`: the page still tries, but says that the venue does not
 * answer.
 * A venue is `live` after its first answer, not when it accepts the socket.
 */
export type Phase = 'connecting' | 'live' | 'reconnecting' | 'offline';

export interface Status {
  phase: Phase;
  /** Start of the next attempt in ms since 1970; null during an attempt or without need for one. */
  retryAt: number | null;
}

export interface Listener {
  status(status: Status): void;
  /** The channels were subscribed again. All data from before is old. */
  live(): void;
  /** The venue is gone. Data from it is no longer the market. */
  lost(): void;
  roundTrip(milliseconds: number): void;
  problem(text: string): void;
  /** Called with every frame before it is parsed. */
  message?(): void;
}

export interface Options {
  /** The first request on a new socket. Its answer makes the connection live. */
  hello?(call: Connection['call']): Promise<unknown>;
  /** The family of subscribe methods, public or private. */
  scope?: 'public' | 'private';
}

/** The used part of WebSocket, so that tests can replace it. */
export type Socket = Pick<WebSocket, 'onopen' | 'onmessage' | 'onclose' | 'send' | 'close'>;

export type Handler = (data: unknown, channel: string) => void;

const CALL_TIMEOUT = 10_000;
const HELLO_TIMEOUT = 5_000;
const PING_INTERVAL = 5_000;
const OFFLINE_AFTER = 15_000;

interface Call {
  resolve(result: unknown): void;
  reject(error: Error): void;
  timer: ReturnType<typeof setTimeout>;
}

/** A socket to the venue that reconnects by itself, with calls and channels. */
export class Connection {
  #open: () => Socket;
  #listener: Listener;
  #options: Options;
  #socket: Socket | null = null;
  /** True if the socket can send. A connecting socket throws on a write. */
  #opened = false;
  #live = false;
  #attempt = 0;
  #downSince: number | null = null;
  #nextId = 1;
  #calls = new Map<number, Call>();
  #handlers = new Map<string, Handler>();
  /** Handlers of refused channels, which replace the message to the user. */
  #refusals = new Map<string, () => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(open: () => Socket, listener: Listener, options: Options = {}) {
    this.#open = open;
    this.#listener = listener;
    this.#options = options;
  }

  get live(): boolean {
    return this.#live;
  }

  start(): void {
    this.#connect();
  }

  /** Ends the wait for the next attempt. */
  retry(): void {
    if (this.#socket === null) this.#connect();
  }

  stop(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#forget();
    socket?.close();
  }

  call<T>(method: string, params: object = {}): Promise<T> {
    const socket = this.#opened ? this.#socket : null;
    if (socket === null) return Promise.reject(new Error('not connected'));
    const id = this.#nextId++;
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#calls.delete(id);
        reject(new Error(`${method}: no answer`));
      }, CALL_TIMEOUT);
      this.#calls.set(id, { resolve: resolve as (result: unknown) => void, reject, timer });
      socket.send(encode(id, method, params));
    });
  }

  /**
   * Subscribes to channels, also after every reconnect, until the returned function is called. A
   * refused channel
   * is shown to the user unless `refused` handles it.
   */
  subscribe(channels: string[], handler: Handler, refused?: () => void): () => void {
    for (const channel of channels) {
      this.#handlers.set(channel, handler);
      if (refused) this.#refusals.set(channel, refused);
      else this.#refusals.delete(channel);
    }
    this.#ask(channels);
    return () => {
      const held = channels.filter((channel) => this.#handlers.get(channel) === handler);
      for (const channel of held) this.#handlers.delete(channel);
      this.#leave(held);
    };
  }

  /** Unsubscribes and subscribes again, which brings a new snapshot. */
  resubscribe(channels: string[]): void {
    this.#leave(channels);
    this.#ask(channels);
  }

  get #scope(): string {
    return this.#options.scope ?? 'public';
  }

  #ask(channels: string[]): void {
    if (!this.#live || channels.length === 0) return;
    this.call<string[]>(`${this.#scope}/subscribe`, { channels }).then(
      (granted) => {
        const missing = channels.filter((channel) => !granted.includes(channel));
        const unexpected = missing.filter((channel) => !this.#refusals.has(channel));
        for (const refused of new Set(missing.map((channel) => this.#refusals.get(channel)))) refused?.();
        if (unexpected.length > 0)
          this.#listener.problem(`Not offered by the venue: ${unexpected.join(', ')}`);
      },
      (error: Error) => this.#complain(error),
    );
  }

  #leave(channels: string[]): void {
    if (!this.#live || channels.length === 0) return;
    this.call(`${this.#scope}/unsubscribe`, { channels }).catch((error: Error) => this.#complain(error));
  }

  #complain(error: Error): void {
    // Every open call fails when the venue is gone. The connection state shows the reason.
    if (this.#live) this.#listener.problem(error.message);
  }

  #connect(): void {
    clearTimeout(this.#timer);
    this.#report(null);
    const socket = this.#open();
    this.#socket = socket;
    // A host that drops packets would block the attempt for minutes.
    this.#timer = setTimeout(() => this.#drop(socket), HELLO_TIMEOUT);
    socket.onopen = () => {
      this.#opened = true;
      this.#ping(socket);
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = () => this.#drop(socket);
  }

  /**
   * Measures the round trip. The first answer makes the connection live; a missing answer ends it.
   */
  #ping(socket: Socket): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#drop(socket), HELLO_TIMEOUT);
    const sent = performance.now();
    const { hello } = this.#options;
    const call: Connection['call'] = (method, params) => this.call(method, params);
    const question = this.#live || !hello ? this.call('public/test') : hello(call);
    question.then(
      () => {
        if (this.#socket !== socket) return;
        this.#listener.roundTrip(performance.now() - sent);
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#ping(socket), PING_INTERVAL);
        if (!this.#live) this.#welcome();
      },
      () => this.#drop(socket),
    );
  }

  #welcome(): void {
    this.#live = true;
    this.#attempt = 0;
    this.#downSince = null;
    this.#report(null);
    this.#ask([...this.#handlers.keys()]);
    this.#listener.live();
  }

  #drop(socket: Socket): void {
    if (this.#socket !== socket) return;
    const wasLive = this.#live;
    this.#forget();
    socket.close();
    this.#downSince ??= Date.now();
    if (wasLive) this.#listener.lost();
    const wait = delay(this.#attempt++);
    this.#timer = setTimeout(() => this.#connect(), wait);
    this.#report(Date.now() + wait);
  }

  #forget(): void {
    if (this.#socket) this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket = null;
    this.#opened = false;
    this.#live = false;
    clearTimeout(this.#timer);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) {
      clearTimeout(call.timer);
      call.reject(new Error('connection lost'));
    }
  }

  #receive(data: unknown): void {
    if (typeof data !== 'string') return;
    this.#listener.message?.();
    const incoming = decode(data);
    if (incoming.kind === 'notification') {
      this.#handlers.get(incoming.channel)?.(incoming.data, incoming.channel);
    } else if (incoming.kind === 'result') {
      this.#settle(incoming.id)?.resolve(incoming.result);
    } else if (incoming.kind === 'error') {
      const call = incoming.id === null ? undefined : this.#settle(incoming.id);
      if (call) call.reject(incoming.error);
      else this.#listener.problem(incoming.error.message);
    }
  }

  #settle(id: number): Call | undefined {
    const call = this.#calls.get(id);
    if (call) clearTimeout(call.timer);
    this.#calls.delete(id);
    return call;
  }

  #report(retryAt: number | null): void {
    this.#listener.status({ phase: this.#phase(), retryAt });
  }

  #phase(): Phase {
    if (this.#live) return 'live';
    if (this.#downSince === null) return 'connecting';
    return Date.now() - this.#downSince < OFFLINE_AFTER ? 'reconnecting' : 'offline';
  }
}
