import { Book } from '../lib/book';
import { MINUTE, addTrade, fromChartData, fromTrades, isMadeOfTrades, type Candle } from '../lib/candles';
import type { Connection } from '../lib/connection';
import { after, merge } from '../lib/tape';
import type { BookMessage, ChartData, Ticker, Trade } from '../lib/venue';

const TAPE_LENGTH = 120;
const HISTORY_COUNT = 100;
/** Candles that are asked for. */
const CANDLES = 400;
/** Most trades of one answer of the venue. */
const TRADES_MAX = 1000;

/** Book, trades and candles of the selected instrument. */
export class Market {
  name = $state<string | null>(null);
  /** Number of book changes. Components read the book again when it changes. */
  revision = $state(0);
  /** Number of broken chains of change ids since the page was opened. */
  breaks = $state(0);
  trades = $state.raw<Trade[]>([]);
  /**
   * A new array after each load of the history. Trades extend it in place and change
   * `candleRevision`.
   */
  candles = $state.raw<Candle[]>([]);
  candleRevision = $state(0);
  loaded = $state(false);
  /** The length of a candle, in seconds. */
  bucketSeconds = $state(MINUTE);
  readonly book = new Book();
  #connection: Connection;
  #close: (() => void) | null = null;
  /** Trades that arrived while the history was loading; null after that. */
  #backlog: Trade[] | null = [];
  #lastSequence = 0;
  #load = 0;
  #isInverse = false;

  #stamped: (timestamp: number) => void;

  /** `stamped` receives the venue time of each live book message. */
  constructor(connection: Connection, stamped: (timestamp: number) => void = () => undefined) {
    this.#connection = connection;
    this.#stamped = stamped;
  }

  /** `isInverse` tells that amounts of this instrument are in its quote currency. */
  select(name: string | null, isInverse: boolean): void {
    if (name === this.name) return;
    this.#close?.();
    this.#close = null;
    this.name = name;
    this.#isInverse = isInverse;
    this.#empty();
    if (name === null) return;
    const bookChannel = `book.${name}.100ms`;
    const tradesChannel = `trades.${name}.100ms`;
    this.#close = this.#connection.subscribe([bookChannel, tradesChannel], (data, channel) => {
      if (channel === bookChannel) this.#onBook(bookChannel, data as BookMessage);
      else this.#onTrades(data as Trade[]);
    });
    void this.load();
  }

  /** Shows candles of another length. */
  setInterval(seconds: number): void {
    if (seconds === this.bucketSeconds) return;
    this.bucketSeconds = seconds;
    this.candles = [];
    void this.load();
  }

  /** Clears the book when the venue is gone, since a frozen book would look live. */
  lost(): void {
    this.book.clear();
    this.revision++;
    // Missing answers must not empty the trades.
    this.#load++;
  }

  /** Loads the history. The channels are subscribed already, so no trade is missed between both. */
  async load(): Promise<void> {
    const name = this.name;
    if (name === null || !this.#connection.live) return;
    const load = ++this.#load;
    this.#backlog = [];
    const now = await this.#venueTime(name);
    if (load !== this.#load) return;
    // The order matters: candles come first and contain every trade up to the newest of the second
    // answer.
    const bucket = this.bucketSeconds;
    const [chart, last] = await Promise.allSettled([
      this.#readCandles(name, bucket, now),
      this.#connection.call<{ trades: Trade[] }>('public/get_last_trades_by_instrument', {
        instrument_name: name,
        count: HISTORY_COUNT,
      }),
    ]);
    // The selection or the connection has changed meanwhile.
    if (load !== this.#load) return;
    const history = last.status === 'fulfilled' ? last.value.trades : [];
    this.trades = merge([], history, TAPE_LENGTH);
    this.candles = chart.status === 'fulfilled' ? chart.value : [];
    this.#lastSequence = this.trades[0]?.trade_seq ?? 0;
    const backlog = this.#backlog;
    this.#backlog = null;
    this.loaded = true;
    this.#onTrades(backlog);
  }

  async #readCandles(name: string, bucket: number, now: number): Promise<Candle[]> {
    const range = {
      instrument_name: name,
      start_timestamp: now - CANDLES * bucket * 1000,
      end_timestamp: now,
    };
    if (!isMadeOfTrades(bucket)) {
      const resolution = String(bucket / MINUTE);
      const chart = { ...range, resolution };
      return fromChartData(
        await this.#connection.call<ChartData>('public/get_tradingview_chart_data', chart),
      );
    }
    const { trades } = await this.#connection.call<{ trades: Trade[] }>(
      'public/get_last_trades_by_instrument_and_time',
      { ...range, count: TRADES_MAX, sorting: 'desc' },
    );
    return fromTrades(
      trades.toSorted((a, b) => a.trade_seq - b.trade_seq),
      bucket,
      this.#isInverse,
    );
  }

  /** Candles use venue time. It may run faster than the wall clock or continue from a stop. */
  async #venueTime(name: string): Promise<number> {
    try {
      const ticker = await this.#connection.call<Ticker>('public/ticker', { instrument_name: name });
      return ticker.timestamp;
    } catch {
      return Date.now();
    }
  }

  #empty(): void {
    this.#load++;
    this.book.clear();
    this.revision++;
    this.trades = [];
    this.candles = [];
    this.loaded = false;
    this.#backlog = [];
    this.#lastSequence = 0;
  }

  #onBook(channel: string, message: BookMessage): void {
    const outcome = this.book.apply(message);
    if (outcome === 'gap') {
      this.breaks++;
      this.#connection.resubscribe([channel]);
    }
    // A snapshot carries the time of the last change, which may be old.
    if (message.type === 'change') this.#stamped(message.timestamp);
    if (outcome !== 'ignored') this.revision++;
  }

  #onTrades(incoming: Trade[]): void {
    if (this.#backlog !== null) {
      this.#backlog.push(...incoming);
      return;
    }
    const fresh = after(this.#lastSequence, incoming);
    if (fresh.length === 0) return;
    for (const trade of fresh) addTrade(this.candles, trade, this.bucketSeconds, this.#isInverse);
    this.#lastSequence = fresh.at(-1)!.trade_seq;
    this.trades = merge(this.trades, fresh, TAPE_LENGTH);
    this.candleRevision++;
  }
}
