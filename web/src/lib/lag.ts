// Age of market messages when they arrive. The venue stamps them with its own clock, which may
// differ from the one of this machine, so the difference is measured first.

interface Sample {
  offset: number;
  roundTrip: number;
}

const SAMPLES = 8;
const WINDOW = 31;
/** Tolerance in milliseconds, for rounding on the wire and drift. */
const SLACK = 20;
/** A larger lag means that venue time is not the time of day, as in a replayed session. */
const ANOTHER_TIME = 60_000;

/** Venue clock minus local clock. Of the last few answers the quickest one is the most exact. */
export class ClockOffset {
  #samples: Sample[] = [];

  /**
   * `sent` and `received` are local, `venue` is what `public/get_time` answered; all in
   * milliseconds.
   */
  add(sent: number, venue: number, received: number): void {
    this.#samples.push({ offset: venue - (sent + received) / 2, roundTrip: received - sent });
    if (this.#samples.length > SAMPLES) this.#samples.shift();
  }

  clear(): void {
    this.#samples = [];
  }

  /** Null while unknown, and if the venue's clock does not run at this clock's rate. */
  get value(): number | null {
    if (!this.#agree()) return null;
    const best = this.#samples.reduce<Sample | null>(
      (least, sample) => (least === null || sample.roundTrip <= least.roundTrip ? sample : least),
      null,
    );
    return best?.offset ?? null;
  }

  /**
   * Each answer bounds the difference by half its round trip. Clocks of one rate have a difference
   * within all bounds.
   */
  #agree(): boolean {
    const least = Math.max(...this.#samples.map(({ offset, roundTrip }) => offset - roundTrip / 2));
    const most = Math.min(...this.#samples.map(({ offset, roundTrip }) => offset + roundTrip / 2));
    return least - most <= SLACK;
  }
}

/** Median of the last messages, so that one late frame does not count. */
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

/**
 * Age of the market data; null before both clocks are compared or if they run at different rates.
 */
export class FeedLag {
  #offset = new ClockOffset();
  #lag = new Lag();

  compared(sent: number, venue: number, received: number): void {
    this.#offset.add(sent, venue, received);
    // The first answers assumed a clock of the same rate, so their samples are void.
    if (this.#offset.value === null) this.#lag.clear();
  }

  /** Adds a message with its venue time and its local time of arrival. */
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

  /** Never negative: an age below zero is the error of the comparison of the clocks. */
  get median(): number | null {
    const median = this.#lag.median;
    return median === null ? null : Math.max(0, median);
  }
}
