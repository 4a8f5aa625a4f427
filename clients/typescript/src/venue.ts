import { BookFault, OrderBook } from './book.js';
import { Connection, hex, type Subscription } from './connection.js';
import { OrderUnknown, PitwireError, Unanswered } from './errors.js';
import { GrowingPause, type Settings, sleep } from './settings.js';
import type { Amendment, Fill, NewOrder, Order, OrderOutcome, Restart } from './types.js';

/** Time after `valid_until` before "not found" is believed. It covers the error of the clock. */
const CLOCK_MARGIN_MS = 1_000;
const QUERY_PAUSE_MS = 250;
const HISTORY_COUNT = 1_000;
/** Trade ids that are remembered to drop repeated fills. */
const TRADE_IDS_MAX = 10_000;

export interface BookSubscription extends Subscription {
  readonly book: OrderBook;
}

/** A connection to a venue with the calls of a trader. */
export class Venue extends Connection {
  #entries = new Map<string, { instrument: string; validUntilMs: number }>();
  #labelPrefix = `pw-${hex(crypto.getRandomValues(new Uint8Array(4)))}`;
  #nextLabel = 1;

  /** Connects, and logs in if the settings have credentials. */
  static async connect(settings: Settings): Promise<Venue> {
    const venue = new Venue(settings);
    await venue.open();
    return venue;
  }

  /**
   * Enters an order. If the answer is lost it throws OrderUnknown: the order may exist, and
   * `resolve` finds out. Any other error says that the order was not entered.
   */
  async place(order: NewOrder): Promise<OrderOutcome> {
    const label = order.label ?? `${this.#labelPrefix}-${this.#nextLabel++}`;
    const validUntilMs = order.valid_until ?? Math.round(this.venueClockMs() + this.settings.validityMs);
    const type = order.type ?? (order.price === undefined ? 'market' : 'limit');
    const { side, ...params } = { ...order, label, type, valid_until: validUntilMs };
    try {
      return await this.call<OrderOutcome>(`private/${side}`, params);
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      this.#entries.set(label, { instrument: order.instrument_name, validUntilMs });
      throw new OrderUnknown(label, error);
    }
  }

  /**
   * Finds out whether an order exists whose answer was lost. Returns undefined if it does not: this
   * is certain only after `valid_until`, because until then the venue may still read the request.
   */
  async resolve(label: string): Promise<Order | undefined> {
    const entry = this.#entries.get(label);
    if (!entry)
      throw new PitwireError(`no order is unknown by the label "${label}"`, 'resolve an OrderUnknown');
    const params = { instrument_name: entry.instrument };
    for (;;) {
      const askedMs = this.venueClockMs();
      const found =
        (await this.#find(label, 'private/get_open_orders_by_instrument', params)) ??
        // An order that closes between the two queries is in the history.
        (await this.#find(label, 'private/get_order_history_by_instrument', {
          ...params,
          count: HISTORY_COUNT,
          include_unfilled: true,
        }));
      if (found || askedMs > entry.validUntilMs + CLOCK_MARGIN_MS) {
        this.#entries.delete(label);
        return found;
      }
      await sleep(QUERY_PAUSE_MS);
    }
  }

  async #find(label: string, method: string, params: object): Promise<Order | undefined> {
    const orders = await this.call<Order[]>(method, params);
    return orders.find((order) => order.label === label);
  }

  /** Changes amount and price of an order. After Unanswered query it with `order`. */
  amend(orderId: string, amendment: Amendment): Promise<OrderOutcome> {
    const validUntil = Math.round(this.venueClockMs() + this.settings.validityMs);
    return this.call('private/edit', { order_id: orderId, valid_until: validUntil, ...amendment });
  }

  /** Cancels an order. After Unanswered query it with `order`. */
  cancel(orderId: string): Promise<Order> {
    return this.call('private/cancel', { order_id: orderId });
  }

  /** Cancels all orders of the account and returns their number. */
  cancelAll(): Promise<number> {
    return this.call('private/cancel_all');
  }

  order(orderId: string): Promise<Order> {
    return this.call('private/get_order_state', { order_id: orderId });
  }

  openOrders(): Promise<Order[]> {
    return this.call('private/get_open_orders');
  }

  /**
   * Follows the own orders and trades. Each fill is delivered once, before the state of its order.
   * `restarted` says that notices may be missing after a cut: query open orders and trades.
   */
  followOwn(handlers: {
    order?: (order: Order) => void;
    trade?: (fill: Fill) => void;
    restarted?: (restart: Restart) => void;
  }): Promise<Subscription> {
    const seen = new Set<string>();
    const isNew = ({ trade_id }: Fill) => {
      if (seen.has(trade_id)) return false;
      seen.add(trade_id);
      if (seen.size > TRADE_IDS_MAX) seen.delete(seen.values().next().value!);
      return true;
    };
    const receive = ({ trades = [], orders = [] }: { trades?: Fill[]; orders?: Order[] }) => {
      for (const fill of trades.filter(isNew)) handlers.trade?.(fill);
      for (const order of orders) handlers.order?.(order);
    };
    return this.subscribe('user.changes.any.any.raw', receive, handlers.restarted);
  }

  /**
   * Follows a book. `onChange` is called when the book is complete and after each change. After a
   * gap the book is empty until the venue has sent a new snapshot.
   */
  async followBook(
    instrument: string,
    onChange: (book: OrderBook) => void = () => {},
    interval: 'raw' | '100ms' | 'agg2' = '100ms',
  ): Promise<BookSubscription> {
    const book = new OrderBook();
    const channel = `book.${instrument}.${interval}`;
    let isFollowed = true;
    let isRepairing = false;
    const repair = async () => {
      if (isRepairing) return;
      isRepairing = true;
      const pause = new GrowingPause(this.settings.firstPauseMs, this.settings.longestPauseMs);
      // The request or the snapshot may be lost in another cut, so it is repeated.
      while (isFollowed && book.changeId === undefined) {
        await this.restart(channel).catch(() => {});
        if (this.hasEnded) break;
        await sleep(pause.next());
      }
      isRepairing = false;
    };
    const receive = (data: Parameters<OrderBook['apply']>[0]) => {
      try {
        if (book.apply(data)) onChange(book);
      } catch (error) {
        if (!(error instanceof BookFault)) throw error;
        onChange(book);
        void repair();
      }
    };
    const subscription = await this.subscribe(channel, receive);
    const unsubscribe = () => {
      isFollowed = false;
      return subscription.unsubscribe();
    };
    return { channel, book, unsubscribe };
  }
}
