import { Channel, type ResumeNotice } from './channel.js';
import { ConnectionFailed, NotSent, PitwireError, Refused, Unanswered } from './errors.js';
import { type CompleteSettings, DEFAULTS, GrowingPause, type Settings, sleep } from './settings.js';
import type { Restart } from './types.js';

/** The venue takes resume tokens of this many channels in one request. */
const CHANNELS_PER_REQUEST = 100;
const TOO_MANY_REQUESTS = 10028;
/** Wrong credentials, an invalid token, a closed account: the next attempt fails as well. */
const FINAL_CODES = [13004, 13009, 11042];
const SILENT_HEARTBEATS = 3;

interface PendingCall {
  resolve: (result: any) => void;
  reject: (error: PitwireError) => void;
  method: string;
  timer: ReturnType<typeof setTimeout>;
}

export interface Subscription {
  readonly channel: string;
  unsubscribe(): Promise<void>;
}

/** One logical connection. After a cut it reconnects, logs in, and resumes its channels. */
export class Connection {
  protected readonly settings: CompleteSettings;
  #socket: WebSocket | undefined;
  #isReady = false;
  #endCause: string | undefined;
  #waiting: (() => void)[] = [];
  #pending = new Map<number, PendingCall>();
  #channels = new Map<string, Channel>();
  #nextId = 1;
  #clockOffsetMs = 0;
  #lastReceived = 0;
  #watch: ReturnType<typeof setInterval> | undefined;

  protected constructor(settings: Settings) {
    this.settings = { ...DEFAULTS, ...settings };
  }

  /** Returns the venue's wall clock in milliseconds, estimated from its last answer. */
  venueClockMs(): number {
    return Date.now() + this.#clockOffsetMs;
  }

  get hasEnded(): boolean {
    return this.#endCause !== undefined;
  }

  /**
   * Sends a call and returns its result. After an answer `too_many_requests` the call waits as long
   * as the venue demands, and is repeated. Throws Refused, NotSent or Unanswered.
   */
  async call<T = any>(method: string, params: object = {}): Promise<T> {
    const deadline = Date.now() + this.settings.timeoutMs;
    const pause = new GrowingPause(100, 5_000);
    for (;;) {
      await this.#ready(method, deadline);
      try {
        return await this.#send<T>(method, params, deadline - Date.now());
      } catch (error) {
        if (!(error instanceof Refused) || error.code !== TOO_MANY_REQUESTS) throw error;
        const waitMs = Math.max(error.retryAfterMs ?? pause.next(), 1);
        if (Date.now() + waitMs >= deadline) throw error;
        await sleep(waitMs);
      }
    }
  }

  /**
   * Subscribes to a channel. After a cut the venue sends the missed messages first. `onRestart` is
   * called if it cannot: messages may be missing or repeated, so query the state.
   */
  async subscribe(
    name: string,
    onData: (data: any) => void,
    onRestart: (restart: Restart) => void = () => {},
  ): Promise<Subscription> {
    if (this.#channels.has(name)) {
      throw new PitwireError(`the connection has the channel ${name} already`, 'use that subscription');
    }
    const channel = new Channel(name, onData, onRestart);
    // The channel is known before the answer, because a reconnection meanwhile must subscribe it.
    this.#channels.set(name, channel);
    try {
      await this.#subscribeAgain(channel);
    } catch (error) {
      this.#channels.delete(name);
      throw error;
    }
    const unsubscribe = async () => {
      this.#channels.delete(name);
      await this.call(`${scope(channel)}/unsubscribe`, { channels: [name] });
    };
    return { channel: name, unsubscribe };
  }

  /** Asks the venue for the whole state of a channel again. */
  protected async restart(name: string): Promise<void> {
    const channel = this.#channels.get(name);
    if (!channel) return;
    await this.call(`${scope(channel)}/unsubscribe`, { channels: [name] });
    channel.token = null;
    await this.#subscribeAgain(channel);
  }

  async #subscribeAgain(channel: Channel): Promise<void> {
    const granted = await this.call<string[]>(`${scope(channel)}/subscribe`, subscription([channel]));
    if (!granted.includes(channel.name)) {
      throw new PitwireError(`the venue has no channel ${channel.name}`, 'check its name');
    }
  }

  /** Ends the connection. Calls without an answer fail. */
  close(): void {
    this.#end('it was closed by its user');
  }

  protected async open(): Promise<void> {
    // Browsers have it in secure contexts only.
    if (this.settings.clientId !== undefined && !crypto.subtle) {
      throw new ConnectionFailed('this page cannot sign a login', 'load it over https, or from localhost');
    }
    await this.#connect();
    this.#watch = setInterval(() => this.#checkSilence(), 1_000);
  }

  async #connect(): Promise<void> {
    const { url, clientId, clientSecret, timeoutMs, heartbeatS, cancelOnDisconnect } = this.settings;
    const socket = await this.#openSocket(url);
    this.#socket = socket;
    this.#lastReceived = Date.now();
    socket.onmessage = ({ data }) => this.#receive(socket, data);
    socket.onclose = ({ code, reason }) => this.#lose(socket, `closed with ${code} ${reason}`);
    socket.onerror = () => {};
    const ask = (method: string, params: object) => this.#send<any>(method, params, timeoutMs);
    try {
      if (clientId !== undefined && clientSecret !== undefined) {
        // The answer has the venue's clock, so a wrong clock here does not spoil the signature.
        await ask('public/hello', { client_name: 'pitwire-typescript', client_version: '0.1.0' });
        await ask('public/auth', await signedLogin(clientId, clientSecret, Math.round(this.venueClockMs())));
        if (cancelOnDisconnect) await ask('private/enable_cancel_on_disconnect', { scope: 'connection' });
      }
      if (heartbeatS > 0) await ask('public/set_heartbeat', { interval: Math.max(heartbeatS, 10) });
      for (const isPrivate of [false, true]) {
        const channels = [...this.#channels.values()].filter((channel) => channel.isPrivate === isPrivate);
        for (let start = 0; start < channels.length; start += CHANNELS_PER_REQUEST) {
          const some = channels.slice(start, start + CHANNELS_PER_REQUEST);
          const granted: string[] = await ask(`${scope(some[0]!)}/subscribe`, subscription(some));
          for (const { name, onRestart } of some.filter(({ name }) => !granted.includes(name))) {
            this.#channels.delete(name);
            onRestart({ channel: name, by: 'nothing', reason: 'refused' });
          }
        }
      }
    } catch (error) {
      this.#drop(socket, 'the connection could not be prepared');
      throw error;
    }
    if (this.#endCause !== undefined) throw new ConnectionFailed('the connection has ended', this.#endCause);
    this.#isReady = true;
    this.settings.onState('ready', '');
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async #openSocket(url: string): Promise<WebSocket> {
    const remedy = 'start the venue (pitwire up), and check that the URL is ws://HOST:PORT/ws/api/v2';
    let socket: WebSocket;
    try {
      socket = await this.settings.openSocket(url);
    } catch (error) {
      throw new ConnectionFailed(`cannot connect to ${url}: ${String(error)}`, remedy);
    }
    return new Promise((resolve, reject) => {
      const fail = (cause: string) => {
        clearTimeout(timer);
        socket.onopen = null;
        socket.close();
        reject(new ConnectionFailed(`cannot connect to ${url}: ${cause}`, remedy));
      };
      const timer = setTimeout(
        () => fail(`nothing in ${this.settings.timeoutMs} ms`),
        this.settings.timeoutMs,
      );
      socket.onopen = () => {
        clearTimeout(timer);
        resolve(socket);
      };
      socket.onerror = (event) => fail((event as ErrorEvent).message || 'the venue does not answer');
      socket.onclose = ({ code }) => fail(`closed with ${code}`);
    });
  }

  async #reconnect(cause: string): Promise<void> {
    const { firstPauseMs, longestPauseMs, onState } = this.settings;
    const pause = new GrowingPause(firstPauseMs, longestPauseMs);
    for (let latest = cause; this.#endCause === undefined;) {
      onState('reconnecting', latest);
      await sleep(pause.next());
      if (this.#endCause !== undefined) return;
      try {
        await this.#connect();
        return;
      } catch (error) {
        if (error instanceof Refused && FINAL_CODES.includes(error.code)) return this.#end(error.message);
        latest = String(error);
      }
    }
  }

  /** Waits until calls can be sent. */
  async #ready(method: string, deadline: number): Promise<void> {
    while (!this.#isReady) {
      if (this.#endCause !== undefined) throw new NotSent(method, this.#endCause);
      const leftMs = deadline - Date.now();
      if (leftMs <= 0) throw new NotSent(method, 'there is no connection');
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  #send<T>(method: string, params: object, patienceMs: number): Promise<T> {
    const socket = this.#socket;
    if (socket?.readyState !== 1) return Promise.reject(new NotSent(method, 'the connection is cut'));
    const id = this.#nextId++;
    const sentAt = Date.now();
    return new Promise<T>((resolve, reject) => {
      const giveUp = () => {
        this.#pending.delete(id);
        reject(new Unanswered(method, `nothing in ${patienceMs} ms`));
        if (this.#lastReceived < sentAt) this.#lose(socket, 'the venue sent nothing after a request');
      };
      this.#pending.set(id, { resolve, reject, method, timer: setTimeout(giveUp, patienceMs) });
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    });
  }

  #receive(socket: WebSocket, text: string): void {
    if (socket !== this.#socket) return;
    this.#lastReceived = Date.now();
    let message: any;
    try {
      message = JSON.parse(text);
    } catch {
      return this.#lose(socket, 'the venue sent a message that is not JSON');
    }
    if (typeof message.usOut === 'number') this.#clockOffsetMs = message.usOut / 1_000 - Date.now();
    const { method, params } = message;
    if (method === undefined) {
      const call = this.#pending.get(message.id);
      if (!call) return;
      this.#pending.delete(message.id);
      clearTimeout(call.timer);
      if (message.error) call.reject(new Refused(call.method, message.error));
      else call.resolve(message.result);
    } else if (method === 'heartbeat' && params?.type === 'test_request') {
      this.#send('public/test', {}, this.settings.timeoutMs).catch(() => {});
    } else if (method === 'subscription') {
      this.#channels.get(params.channel)?.receive(params.data, params.token);
    } else if (method === 'pitwire_resume') {
      this.#channels.get(params.channel)?.resume(params as ResumeNotice);
    }
  }

  #checkSilence(): void {
    const limitMs = this.settings.heartbeatS * SILENT_HEARTBEATS * 1_000;
    const socket = this.#socket;
    if (socket && limitMs > 0 && Date.now() - this.#lastReceived > limitMs) {
      this.#lose(socket, `the venue sent nothing for ${limitMs} ms`);
    }
  }

  #lose(socket: WebSocket, cause: string): void {
    if (socket !== this.#socket) return;
    const wasReady = this.#isReady;
    this.#drop(socket, cause);
    // While a connection is being prepared, its maker sees the failed call and tries again.
    if (wasReady && this.#endCause === undefined) void this.#reconnect(cause);
  }

  /** Forgets a socket. The venue may have executed the calls without an answer. */
  #drop(socket: WebSocket, cause: string): void {
    socket.onmessage = socket.onclose = null;
    socket.close();
    this.#socket = undefined;
    this.#isReady = false;
    for (const channel of this.#channels.values()) channel.cut();
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { method, timer, reject } of pending) {
      clearTimeout(timer);
      reject(new Unanswered(method, cause));
    }
  }

  #end(cause: string): void {
    if (this.#endCause !== undefined) return;
    this.#endCause = cause;
    clearInterval(this.#watch);
    if (this.#socket) this.#drop(this.#socket, cause);
    for (const wake of this.#waiting.splice(0)) wake();
    this.settings.onState('ended', cause);
  }
}

function scope(channel: Channel): 'public' | 'private' {
  return channel.isPrivate ? 'private' : 'public';
}

function subscription(channels: Channel[]): object {
  const resume = Object.fromEntries(channels.map(({ name, token }) => [name, token]));
  return { channels: channels.map(({ name }) => name), resume };
}

export function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns the parameters of a login by signature. They do not contain the secret. */
async function signedLogin(clientId: string, secret: string, timestamp: number): Promise<object> {
  const encoder = new TextEncoder();
  const nonce = hex(crypto.getRandomValues(new Uint8Array(8)));
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign']);
  const signed = await crypto.subtle.sign('HMAC', key, encoder.encode(`${timestamp}\n${nonce}\n`));
  const signature = hex(new Uint8Array(signed));
  return { grant_type: 'client_signature', client_id: clientId, timestamp, nonce, data: '', signature };
}
