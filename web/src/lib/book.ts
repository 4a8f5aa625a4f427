import type { BookEdit, BookMessage } from './venue';

export type Level = readonly [price: number, amount: number];

/** `gap`: the chain of change ids is broken and the book must be asked for again. */
export type Outcome = 'applied' | 'gap' | 'ignored';

export interface Rung {
  price: number;
  amount: number;
  /** Amount from the touch down to and including this level. */
  total: number;
}

export interface Ladder {
  bids: Rung[];
  asks: Rung[];
  /**
   * Best ask less best bid; negative while an auction call holds a crossed book; null with a side
   * empty.
   */
  spread: number | null;
  mid: number | null;
  maxAmount: number;
  maxTotal: number;
}

/**
 * An order book from a `book.*` channel: a snapshot, then changes with the id of their predecessor.
 * Both sides are arrays, best price first.
 */
export class Book {
  #bids: [number, number][] = [];
  #asks: [number, number][] = [];
  #changeId: number | null = null;

  /** Id of the last applied message; null before the first snapshot. */
  get changeId(): number | null {
    return this.#changeId;
  }

  get ready(): boolean {
    return this.#changeId !== null;
  }

  get bids(): readonly Level[] {
    return this.#bids;
  }

  get asks(): readonly Level[] {
    return this.#asks;
  }

  clear(): void {
    this.#bids = [];
    this.#asks = [];
    this.#changeId = null;
  }

  apply(message: BookMessage): Outcome {
    if (message.type === 'snapshot') {
      // A snapshot always replaces the book. Merging it would keep dead levels.
      this.clear();
    } else if (this.#changeId === null) {
      // A message of the previous subscription. The snapshot of the new one follows.
      return 'ignored';
    } else if (message.prev_change_id !== this.#changeId) {
      this.clear();
      return 'gap';
    }
    for (const edit of message.bids) amend(this.#bids, edit, -1);
    for (const edit of message.asks) amend(this.#asks, edit, 1);
    this.#changeId = message.change_id;
    return 'applied';
  }

  /** The best `depth` levels of each side, with running totals. */
  ladder(depth: number): Ladder {
    const bids = accumulate(this.#bids, depth);
    const asks = accumulate(this.#asks, depth);
    const bid = bids[0]?.price;
    const ask = asks[0]?.price;
    const both = bid !== undefined && ask !== undefined;
    const rungs = [...bids, ...asks];
    return {
      bids,
      asks,
      spread: both ? ask - bid : null,
      mid: both ? (ask + bid) / 2 : null,
      maxAmount: rungs.reduce((most, rung) => Math.max(most, rung.amount), 0),
      maxTotal: Math.max(bids.at(-1)?.total ?? 0, asks.at(-1)?.total ?? 0),
    };
  }
}

/** `order` is 1 for ascending prices (asks) and -1 for descending (bids). */
function amend(side: [number, number][], [action, price, amount]: BookEdit, order: 1 | -1): void {
  let low = 0;
  let high = side.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((side[middle]![0] - price) * order < 0) low = middle + 1;
    else high = middle;
  }
  // Prices are compared exactly: the same decimal text always parses to the same double.
  const present = side[low]?.[0] === price;
  if (action === 'delete' || amount <= 0) {
    if (present) side.splice(low, 1);
  } else if (present) {
    side[low]![1] = amount;
  } else {
    side.splice(low, 0, [price, amount]);
  }
}

function accumulate(side: readonly Level[], depth: number): Rung[] {
  let total = 0;
  return side.slice(0, depth).map(([price, amount]) => {
    total += amount;
    return { price, amount, total };
  });
}
