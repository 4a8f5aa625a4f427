export type ConnectionState = 'ready' | 'reconnecting' | 'ended';

export interface Settings {
  /** WebSocket URL, such as `ws://127.0.0.1:8080/ws/api/v2`. */
  url: string;
  /** Login. Without it only public methods work. The secret signs the login and is never sent. */
  clientId?: string;
  clientSecret?: string;
  /** Longest wait for a connection, and for the answer to one call. Default: 10,000 ms. */
  timeoutMs?: number;
  /** The venue refuses an order that it reads later than this after the call. Default: 5,000 ms. */
  validityMs?: number;
  /** Pauses between attempts to reconnect double from the first to the longest. Default: 100 ms. */
  firstPauseMs?: number;
  /** Default: 10,000 ms. */
  longestPauseMs?: number;
  /** Interval of heartbeats. A socket that is silent for three of them is dead. Default: 30 s. */
  heartbeatS?: number;
  /** Asks the venue to cancel the orders of this connection when its socket closes. */
  cancelOnDisconnect?: boolean;
  /** Called when the connection is made, lost or ended. */
  onState?: (state: ConnectionState, cause: string) => void;
  /** Makes a socket. Default: the global WebSocket, or the package `ws`. */
  openSocket?: (url: string) => WebSocket | Promise<WebSocket>;
}

type Optional = 'clientId' | 'clientSecret';
export type CompleteSettings = Required<Omit<Settings, Optional>> & Pick<Settings, Optional>;

export const DEFAULTS: Omit<CompleteSettings, 'url'> = {
  timeoutMs: 10_000,
  validityMs: 5_000,
  firstPauseMs: 100,
  longestPauseMs: 10_000,
  heartbeatS: 30,
  cancelOnDisconnect: false,
  onState: () => {},
  openSocket: defaultSocket,
};

async function defaultSocket(url: string): Promise<WebSocket> {
  if (globalThis.WebSocket) return new globalThis.WebSocket(url);
  const { WebSocket } = await import('ws');
  return new WebSocket(url, { perMessageDeflate: false }) as unknown as WebSocket;
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Pauses that double up to a bound. A random half keeps clients from returning all at once. */
export class GrowingPause {
  #nextMs: number;

  constructor(
    firstMs: number,
    readonly longestMs: number,
  ) {
    this.#nextMs = firstMs;
  }

  next(): number {
    const bound = this.#nextMs;
    this.#nextMs = Math.min(bound * 2, this.longestMs);
    return bound * (0.5 + Math.random() / 2);
  }
}
