// How old the market is when it reaches this page. The venue stamps messages with its own clock, which need not agree
// with this machine's, so the difference of the two is measured first.

interface Sample {
  offset: number;
  roundTrip: number;
}

const SAMPLES = 8;
const WINDOW = 31;
/** Whole milliseconds on the wire, and a little drift. */
const SLACK = 20;
/** Nobody's feed is so late: the market's time is another than the day's, as where a session is played back. */
const ANOTHER_TIME = 60_000;

/** Venue clock less local clock. Of the last few questions the quickest answer is the most exact. */
export class ClockOffset {
  #samples: Sample[] = [];

  /** `sent` and `received` are local, `venue` is what `public/get_time` answered; all in milliseconds. */
  add(sent: number, venue: number, received: number): void {
    this.#samples.push({ offset: venue - (sent + received) / 2, roundTrip: received - sent });
    if (this.#samples.length > SAMPLES) this.#samples.shift();
  }

  clear(): void {
    this.#samples = [];
  }

  /** Null until it is known, and where the venue's clock does not run with this one: a test may hold it still. */
  get value(): number | null {
    if (!this.#agree()) return null;
    const best = this.#samples.reduce<Sample | null>(
      (least, sample) => (least === null || sample.roundTrip <= least.roundTrip ? sample : least),
      null,
    );
    return best?.offset ?? null;
  }

  /** Each answer bounds the true difference by half its round trip; clocks of one pace have one that fits them all. */
  #agree(): boolean {
    const least = Math.max(...this.#samples.map(({ offset, roundTrip }) => offset - roundTrip / 2));
    const most = Math.min(...this.#samples.map(({ offset, roundTrip }) => offset + roundTrip / 2));
    return least - most <= SLACK;
  }
}

/** The median of the last messages: one late frame is not the state of the feed. */
export class Lag {
  #recent: number[] = [];

  add(milliseconds: number): void {
    this.#recent.push(milliseconds);
    if (this.#recent.length > WINDOW) this.#recent.shift();
  }

  clear(): void {
    this.#recent = [];
  }

  get median(): number | null {
    const sorted = this.#recent.toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? null;
  }
}

/** How old the market is, once both clocks have been compared; null where they do not run together. */
export class FeedLag {
  #offset = new ClockOffset();
  #lag = new Lag();

  compared(sent: number, venue: number, received: number): void {
    this.#offset.add(sent, venue, received);
    // What the first answers made of it counted on a clock that runs with this one.
    if (this.#offset.value === null) this.#lag.clear();
  }

  /** A message stamped by the venue has come at this local time. */
  stamped(timestamp: number, at: number): void {
    const offset = this.#offset.value;
    if (offset === null) return;
    const lag = at + offset - timestamp;
    if (Math.abs(lag) < ANOTHER_TIME) this.#lag.add(lag);
    else this.#lag.clear();
  }

  clear(): void {
    this.#offset.clear();
    this.#lag.clear();
  }

  get median(): number | null {
    return this.#lag.median;
  }
}
