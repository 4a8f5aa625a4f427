import type { Connection } from '../lib/connection';
import { VenueClock, type AuctionMessage, type Rules, type SessionMessage } from '../lib/session';

/** How often the countdown is drawn. */
const TICK = 250;

/** The session of the selected instrument and, in a call, what it would do; and the rulebook's tables, read once. */
export class SessionState {
  session = $state.raw<SessionMessage | null>(null);
  auction = $state.raw<AuctionMessage | null>(null);
  rules = $state.raw<Rules | null>(null);
  /** Venue time as far as this page can tell; null before the venue has said anything. */
  now = $state<number | null>(null);
  #connection: Connection;
  #clock = new VenueClock();
  #close: (() => void) | null = null;
  #name: string | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  start(): void {
    this.#timer = setInterval(() => (this.now = this.#clock.now(Date.now())), TICK);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  select(name: string | null): void {
    if (name === this.#name) return;
    this.#close?.();
    this.#close = null;
    this.#name = name;
    this.session = this.auction = null;
    if (name === null) return;
    const sessions = `session.${name}`;
    // A venue of an earlier version serves neither: there is nothing to show then.
    this.#close = this.#connection.subscribe(
      [sessions, `auction.${name}`],
      (data, channel) => {
        this.heard((data as { timestamp: number }).timestamp);
        if (channel === sessions) this.session = data as SessionMessage;
        else this.auction = data as AuctionMessage;
      },
      () => undefined,
    );
  }

  /** The venue has told its time. */
  heard(timestamp: number): void {
    this.#clock.heard(timestamp, Date.now());
    this.now = this.#clock.now(Date.now());
  }

  async load(): Promise<void> {
    try {
      this.rules ??= await this.#connection.call<Rules>('public/pitwire_get_rules');
    } catch {
      // An earlier version: nothing is known of what a session permits, and the venue is the judge.
    }
  }

  lost(): void {
    this.session = this.auction = null;
  }

  /** Milliseconds of venue time until the session ends; null where nobody has said. */
  get left(): number | null {
    const ends = this.session?.ends;
    return ends === undefined || this.now === null ? null : ends - this.now;
  }

  /** Milliseconds of venue time by which a manual clock must advance to end the session; null if no end is known. */
  get toNext(): number | null {
    const ends = this.session?.ends;
    const at = this.session === null ? null : Math.max(this.session.timestamp, this.#clock.latest ?? 0);
    return ends === undefined || at === null ? null : Math.max(0, ends - at);
  }

  get inCall(): boolean {
    return this.auction?.type === 'indicative';
  }
}
