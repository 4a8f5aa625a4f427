import { Connection, type Listener, type Status } from '../lib/connection';
import { FeedLag } from '../lib/lag';

const CLOCK_INTERVAL = 5_000;
/** Questions at the start, a little apart: the first alone may have waited behind a snapshot. */
const FIRST_QUESTIONS = [0, 250, 500, 750, 1_000];
const METER_INTERVAL = 1_000;

/** The connection as the page shows it: its state, and how much comes over it how late. */
export class Link {
  status = $state.raw<Status>({ phase: 'connecting', retryAt: null });
  roundTrip = $state<number | null>(null);
  problem = $state<string | null>(null);
  messagesPerSecond = $state<number | null>(null);
  /** From the venue's stamp on a book message to its arrival here, in ms; null until both clocks are compared. */
  lag = $state<number | null>(null);
  readonly connection: Connection;
  #lag = new FeedLag();
  #messages = 0;
  #metered = 0;
  #timers: ReturnType<typeof setInterval>[] = [];

  constructor(url: string, events: Pick<Listener, 'live' | 'lost'>) {
    this.connection = new Connection(() => new WebSocket(url), {
      status: (status) => (this.status = status),
      live: () => {
        this.problem = null;
        this.#forgetMeters();
        for (const wait of FIRST_QUESTIONS) setTimeout(() => void this.#compareClocks(), wait);
        events.live();
      },
      lost: () => {
        this.roundTrip = null;
        this.#forgetMeters();
        events.lost();
      },
      roundTrip: (milliseconds) => (this.roundTrip = milliseconds),
      problem: (text) => (this.problem = text),
      message: () => this.#messages++,
    });
  }

  get live(): boolean {
    return this.status.phase === 'live';
  }

  start(): void {
    this.connection.start();
    this.#timers = [
      setInterval(() => void this.#compareClocks(), CLOCK_INTERVAL),
      setInterval(() => this.#meter(), METER_INTERVAL),
    ];
  }

  stop(): void {
    this.#timers.forEach(clearInterval);
    this.connection.stop();
  }

  /** Told of each message of the market that carries the venue's time. */
  stamped(timestamp: number): void {
    this.#lag.stamped(timestamp, now());
  }

  async #compareClocks(): Promise<void> {
    if (!this.live) return;
    const sent = now();
    try {
      const venue = await this.connection.call<number>('public/get_time');
      this.#lag.compared(sent, venue, now());
    } catch {
      // Without it the lag stays unknown, and is shown so.
    }
  }

  #meter(): void {
    const elapsed = now() - this.#metered;
    this.messagesPerSecond = this.live ? (this.#messages * 1000) / elapsed : null;
    this.lag = this.#lag.median;
    this.#messages = 0;
    this.#metered = now();
  }

  #forgetMeters(): void {
    this.#lag.clear();
    this.#messages = 0;
    this.#metered = now();
    this.lag = null;
    this.messagesPerSecond = null;
  }
}

/** Milliseconds since 1970, finer than a whole one and never stepped by a corrected clock while the page is open. */
function now(): number {
  return performance.timeOrigin + performance.now();
}

/** The API lives on the host that served the page, whatever its name and port. */
export function endpoint(location: Location): string {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  return `${scheme}//${location.host}/ws/api/v2`;
}
