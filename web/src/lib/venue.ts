// The messages of the venue that this page reads. An optional field may be absent:
// the dialect prefers an absent field to a null one.

export interface Instrument {
  instrument_name: string;
  kind: string;
  base_currency: string;
  quote_currency: string;
  instrument_type?: string;
  settlement_period?: string;
  state?: string;
  session?: string;
  is_active?: boolean;
  tick_size: number;
  min_trade_amount: number;
  /** Absent for spot. */
  settlement_currency?: string;
  /** Pitwire extension: largest amount and value of one order. */
  max_amount?: number;
  max_notional?: number;
  /** Pitwire extension: collar around the last price, in percent. */
  collar_percent?: number;
  /** Pitwire extension: segment, and smallest hidden order. */
  segment?: string;
  minimum_reserve?: number;
}

export interface TickerStats {
  high?: number;
  low?: number;
  /** In percent. */
  price_change?: number;
  volume?: number;
}

export interface Ticker {
  instrument_name: string;
  timestamp: number;
  state: string;
  /** Pitwire extension: the session, such as "continuous" or "intraday_auction". */
  session?: string;
  last_price?: number;
  mark_price?: number;
  best_bid_price?: number;
  best_bid_amount?: number;
  best_ask_price?: number;
  best_ask_amount?: number;
  /** Pitwire extension: end of the session in venue time. */
  session_ends?: number;
  /** Pitwire extension: indicative price and imbalance of a call. */
  indicative_price?: number;
  indicative_volume?: number;
  imbalance?: number;
  stats?: TickerStats;
}

export type BookAction = 'new' | 'change' | 'delete';
export type BookEdit = [action: BookAction, price: number, amount: number];

export interface BookMessage {
  type: 'snapshot' | 'change';
  timestamp: number;
  instrument_name: string;
  change_id: number;
  prev_change_id?: number;
  bids: BookEdit[];
  asks: BookEdit[];
}

export interface Trade {
  trade_id: string;
  trade_seq: number;
  instrument_name: string;
  timestamp: number;
  price: number;
  amount: number;
  /** Side of the aggressor. */
  direction: 'buy' | 'sell';
  /** Pitwire extension: the call that this trade belongs to. */
  auction?: string;
}

export interface ChartData {
  status: 'ok' | 'no_data';
  ticks: number[];
  open: number[];
  high: number[];
  low: number[];
  close: number[];
  volume: number[];
}

/** The currency of amounts: an inverse contract is traded in its quote currency. */
export function amountUnit(instrument: Instrument): string {
  return instrument.instrument_type === 'reversed' ? instrument.quote_currency : instrument.base_currency;
}

/** The currency that pays for an order. */
export function paidIn(instrument: Instrument, side: 'buy' | 'sell'): string {
  if (instrument.settlement_currency !== undefined) return instrument.settlement_currency;
  return side === 'buy' ? instrument.quote_currency : instrument.base_currency;
}

/** "spot", "inverse perpetual", "future". */
export function describe(instrument: Instrument): string {
  const inverse = instrument.instrument_type === 'reversed' ? 'inverse ' : '';
  const kind =
    instrument.settlement_period === 'perpetual' ? 'perpetual' : instrument.kind.replaceAll('_', ' ');
  return inverse + kind;
}

/** The badge to show beside the name, or null in ordinary continuous trading. */
export function phase(state: string | undefined, session: string | undefined): string | null {
  if (session !== undefined && !session.startsWith('continuous')) return session.replaceAll('_', ' ');
  if (state !== undefined && state !== 'open') return state.replaceAll('_', ' ');
  return null;
}
