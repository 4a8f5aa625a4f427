export type Level = [price: number, amount: number];

/** Why a book cannot follow its channel any more. A new snapshot is necessary. */
export class BookFault extends Error {}

interface BookMessage {
  change_id: number;
  prev_change_id?: number;
  bids: [action: string, price: number, amount: number][];
  asks: [action: string, price: number, amount: number][];
}

/** A copy of a venue's book. Each change must name the change before it. */
export class OrderBook {
  /** Best price first. */
  bids: Level[] = [];
  /** Best price first. */
  asks: Level[] = [];
  /** Number of the last change; undefined while the book waits for a snapshot. */
  changeId: number | undefined;

  /**
   * Applies the data of a message of `book.INSTRUMENT.INTERVAL`. Returns false if the book has the
   * change already or waits for a snapshot. Throws a BookFault, and empties the book, if the
   * message does not continue it.
   */
  apply(message: BookMessage): boolean {
    const previous = message.prev_change_id;
    if (previous === undefined) {
      this.clear();
    } else {
      if (this.changeId === undefined || message.change_id <= this.changeId) return false;
      if (previous !== this.changeId) this.#fail(`expected a change after ${this.changeId}, not ${previous}`);
    }
    this.changeId = message.change_id;
    for (const [action, price, amount] of message.bids) this.#change(this.bids, -1, action, price, amount);
    for (const [action, price, amount] of message.asks) this.#change(this.asks, 1, action, price, amount);
    return true;
  }

  clear(): void {
    this.bids = [];
    this.asks = [];
    this.changeId = undefined;
  }

  #change(levels: Level[], order: 1 | -1, action: string, price: number, amount: number): void {
    let [low, high] = [0, levels.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((levels[middle]![0] - price) * order < 0) low = middle + 1;
      else high = middle;
    }
    const isKnown = levels[low]?.[0] === price;
    if (!isKnown && action !== 'new') this.#fail(`${action} of the unknown price ${price}`);
    if (action === 'delete') levels.splice(low, 1);
    else levels.splice(low, isKnown ? 1 : 0, [price, amount]);
  }

  #fail(what: string): never {
    this.clear();
    throw new BookFault(`the book cannot follow its channel: ${what}`);
  }
}
