// Sessions and calls from Pitwire's extension channels.

import type { Level } from './book';

export interface SessionMessage {
  timestamp: number;
  instrument_name: string;
  session: string;
  state: string;
  previous_session: string;
  reason: 'scheduled' | 'operator' | 'breaker' | 'extended' | 'missed';
  begins: number;
  /** Absent if unknown. */
  ends?: number;
  /** Whether it takes new orders, amends and cancels. */
  enter?: boolean;
  amend?: boolean;
  cancel?: boolean;
  match?: string;
  breach?: { price: number; reference_price: number; timestamp: number };
  closing_price?: number;
  closing_price_derivation?: string;
}

export interface Uncross {
  session: string;
  price: number;
  volume: number;
  timestamp: number;
}

export interface AuctionMessage {
  timestamp: number;
  instrument_name: string;
  session: string;
  /** `indicative` while orders gather for one price. */
  type: 'indicative' | 'result';
  session_ends?: number;
  indicative_price?: number;
  indicative_volume?: number;
  /** Buy amount minus sell amount at the indicative price. */
  imbalance?: number;
  imbalance_side?: 'buy' | 'sell' | 'none';
  /** The latest uncross, if any. */
  uncross?: Uncross;
}

export interface SessionRules {
  session: string;
  enter: boolean;
  /** Answers per time in force and per order type: active, immediate, park, carried, reject. */
  time_in_force: Record<string, string>;
  order_types: Record<string, string>;
}

export interface Rules {
  order_types: { type: string; time_in_force: string; answer: string; rule: string }[];
  sessions: SessionRules[];
  rules: { id: string; text: string }[];
}

/** "intraday auction". */
export function sessionWords(session: string): string {
  return session.replaceAll('_', ' ');
}

/** The reason of an unscheduled session or of a moved end. */
export function reasonWords(reason: SessionMessage['reason']): string | null {
  const words = {
    scheduled: null,
    operator: 'by an operator',
    breaker: 'after a breach',
    extended: 'extended',
    missed: 'made up for',
  };
  return words[reason] ?? null;
}

/** Whole seconds as m:ss, or as h:mm:ss from one hour on. Past times are 0:00. */
export function countdown(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (number: number) => String(number).padStart(2, '0');
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/**
 * Estimates the venue's clock between two messages. It may run faster than this one or stand still,
 * so its
 * rate is measured between two messages that are at least `SPAN` apart on this clock.
 */
export class VenueClock {
  static readonly SPAN = 2_000;
  static readonly KEEP = 30_000;
  #words: { venue: number; here: number }[] = [];

  synchronise(venue: number, here: number): void {
    const last = this.#words.at(-1);
    // Venue time never goes back. A lower time comes from another venue.
    if (last && venue < last.venue) this.#words = [];
    this.#words.push({ venue, here });
    while (this.#words.length > 2 && here - this.#words[1]!.here > VenueClock.KEEP) this.#words.shift();
  }

  /** Venue seconds per local second; 1 until enough messages have arrived. */
  get pace(): number {
    const [first, last] = [this.#words[0], this.#words.at(-1)];
    if (!first || !last || last.here - first.here < VenueClock.SPAN) return 1;
    return (last.venue - first.venue) / (last.here - first.here);
  }

  /** The newest time that the venue sent, without the pace. */
  get latest(): number | null {
    return this.#words.at(-1)?.venue ?? null;
  }

  /** Null before the first message. */
  now(here: number): number | null {
    const last = this.#words.at(-1);
    return last ? last.venue + (here - last.here) * this.pace : null;
  }
}

/** The answer of the rule tables for an order in a session: whether it may be sent, and why not. */
export function permits(
  rules: Rules | null,
  session: string | undefined,
  type: string,
  tif: string,
): { good: boolean; why: string | null } {
  const now = rules?.sessions.find((row) => row.session === session);
  if (!rules || !now) return { good: true, why: null };
  const cell = rules.order_types.find((row) => row.type === type && row.time_in_force === tif);
  if (cell?.answer === 'reject')
    return { good: false, why: rules.rules.find(({ id }) => id === cell.rule)?.text ?? null };
  const name = sessionWords(now.session);
  if (!now.enter) return { good: false, why: `No orders are taken: ${name}.` };
  if (now.order_types[type] === 'reject') return { good: false, why: `Not in this session: ${name}.` };
  if (now.time_in_force[tif] === 'reject') return { good: false, why: `Not in this session: ${name}.` };
  return { good: true, why: null };
}

/** The two cumulative curves of a call: amounts bought and sold at each price. */
export interface CallCurves {
  /** Ascending prices at which either curve steps. */
  prices: number[];
  /** Amounts of buyers and sellers at that price. */
  buy: number[];
  sell: number[];
  most: number;
  /** Amounts outside the levels: market orders and hidden parts of icebergs. */
  besideBuy: number;
  besideSell: number;
}

/**
 * From the visible book, best levels first. Indicative volume beyond the book belongs to orders
 * without a
 * price and raises the whole curve.
 */
export function callCurves(
  bids: readonly Level[],
  asks: readonly Level[],
  outlook: AuctionMessage | null,
): CallCurves | null {
  const at = outlook?.indicative_price;
  const sum = (levels: readonly Level[]) => levels.reduce((total, [, amount]) => total + amount, 0);
  const [volume, imbalance] = [outlook?.indicative_volume ?? 0, outlook?.imbalance ?? 0];
  const beside = (willing: number, shown: number) => (at === undefined ? 0 : Math.max(0, willing - shown));
  const besideBuy = beside(
    volume + Math.max(0, imbalance),
    sum(bids.filter(([price]) => at !== undefined && price >= at)),
  );
  const besideSell = beside(
    volume + Math.max(0, -imbalance),
    sum(asks.filter(([price]) => at !== undefined && price <= at)),
  );
  const prices = [...new Set([...bids, ...asks].map(([price]) => price))].sort((a, b) => a - b);
  if (prices.length === 0) return null;
  const buy = prices.map((price) => besideBuy + sum(bids.filter(([level]) => level >= price)));
  const sell = prices.map((price) => besideSell + sum(asks.filter(([level]) => level <= price)));
  return { prices, buy, sell, most: Math.max(...buy, ...sell), besideBuy, besideSell };
}
