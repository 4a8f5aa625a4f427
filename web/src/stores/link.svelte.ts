import { Connection, type Listener, type Status } from '../lib/connection';
import { FeedLag } from '../lib/lag';

const CLOCK_INTERVAL = 5_000;
/**
 * Times of the first clock questions. Several are needed, because one may wait behind a snapshot.
 */
const FIRST_QUESTIONS = [0, 250, 500, 750, 1_000];
const METER_INTERVAL = 1_000;

/** The connection status of the page: state, message rate and lag. */
export class Link {
  status = $state.raw<Status>({ phase: 'connecting', retryAt: null });
  roundTrip = $state<number | null>(null);
  problem = $state<string | null>(null);
  messagesPerSecond = $state<number | null>(null);
  /**
   * From the venue's stamp on a book message to its arrival here, in ms; null until both clocks are
   * compared.
   */
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

  /** Receives the venue time of each market message. */
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
      // Without an answer the lag stays unknown.
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

/**
 * Milliseconds since 1970 with fractions. Corrections of the clock do not move it while the page is
 * open.
 */
function now(): number {
  return performance.timeOrigin + performance.now();
}

/** The API has the same host and port as the page. */
export function endpoint(location: Location): string {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  return `${scheme}//${location.host}/ws/api/v2`;
}
