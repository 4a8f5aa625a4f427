import type { Connection } from '../lib/connection';
import { VenueClock, type AuctionMessage, type Rules, type SessionMessage } from '../lib/session';

/** Interval of the countdown, in milliseconds. */
const TICK = 250;

/** The session of the selected instrument, the indicative data of a call, and the rule tables. */
export class SessionState {
  session = $state.raw<SessionMessage | null>(null);
  auction = $state.raw<AuctionMessage | null>(null);
  rules = $state.raw<Rules | null>(null);
  /** Estimated venue time; null before the first message of the venue. */
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
    // An earlier version of the venue serves neither, so the bar stays empty.
    this.#close = this.#connection.subscribe(
      [sessions, `auction.${name}`],
      (data, channel) => {
        this.synchronise((data as { timestamp: number }).timestamp);
        if (channel === sessions) this.session = data as SessionMessage;
        else this.auction = data as AuctionMessage;
      },
      () => undefined,
    );
  }

  /** Takes over a time that the venue has sent. */
  synchronise(timestamp: number): void {
    this.#clock.synchronise(timestamp, Date.now());
    this.now = this.#clock.now(Date.now());
  }

  async load(): Promise<void> {
    try {
      this.rules ??= await this.#connection.call<Rules>('public/pitwire_get_rules');
    } catch {
      // An earlier version has no rule tables. The venue then judges each order.
    }
  }

  lost(): void {
    this.session = this.auction = null;
  }

  /** Milliseconds of venue time until the session ends; null if the end is unknown. */
  get left(): number | null {
    const ends = this.session?.ends;
    return ends === undefined || this.now === null ? null : ends - this.now;
  }

  /**
   * Milliseconds of venue time by which a manual clock must advance to end the session; null if no
   * end is known.
   */
  get toNext(): number | null {
    const ends = this.session?.ends;
    const at = this.session === null ? null : Math.max(this.session.timestamp, this.#clock.latest ?? 0);
    return ends === undefined || at === null ? null : Math.max(0, ends - at);
  }

  get inCall(): boolean {
    return this.auction?.type === 'indicative';
  }
}
