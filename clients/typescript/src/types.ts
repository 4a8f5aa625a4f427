/** Objects of the dialect, under its own names. The venue sends more fields than these. */

export interface Order {
  order_id: string;
  instrument_name: string;
  direction: 'buy' | 'sell';
  order_state: 'open' | 'filled' | 'cancelled' | 'rejected' | 'untriggered' | 'triggered';
  order_type: string;
  amount: number;
  filled_amount: number;
  /** A stop that becomes a market order has a word here. */
  price: number | string;
  label: string;
  time_in_force: string;
  client_order_id?: string;
  /** Visible amount that trades before this order at its price. */
  queue_ahead?: number;
  /** Milliseconds of venue time since 1970. */
  last_update_timestamp: number;
}

/** A trade of an own order. */
export interface Fill {
  trade_id: string;
  order_id: string;
  instrument_name: string;
  direction: 'buy' | 'sell';
  price: number;
  amount: number;
  fee: number;
  fee_currency: string;
  label?: string;
  /** Milliseconds of venue time since 1970. */
  timestamp: number;
}

/** The answer to a new or amended order: its state and its trades on entry. */
export interface OrderOutcome {
  order: Order;
  trades: Fill[];
}

/** An order to enter. Other parameters of the dialect may be added; see docs/api-extensions.md. */
export interface NewOrder {
  side: 'buy' | 'sell';
  instrument_name: string;
  amount: number;
  /** Default: `limit` if there is a price, otherwise `market`. */
  type?: 'limit' | 'market' | 'stop_limit' | 'stop_market';
  price?: number;
  trigger_price?: number;
  time_in_force?: string;
  post_only?: boolean;
  reduce_only?: boolean;
  /** Unique for each order. The client sets one if it is absent. */
  label?: string;
  /** Milliseconds since 1970 after which the venue refuses the request. The client sets it. */
  valid_until?: number;
  [parameter: string]: unknown;
}

/** New values of an order: `amount` is its new total. */
export interface Amendment {
  amount: number;
  price?: number;
  [parameter: string]: unknown;
}

/** A channel that could not continue where it was cut. `by` says what was sent instead. */
export interface Restart {
  channel: string;
  by: 'history' | 'snapshot' | 'nothing';
  /** `other_epoch`, `too_old` and others of docs/resume.md; `refused` if the channel has ended. */
  reason: string;
}
