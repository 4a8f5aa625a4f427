// The account data that this page reads.

import { clock } from './format';

export type OrderState = 'open' | 'filled' | 'rejected' | 'cancelled' | 'untriggered' | 'triggered';

export interface Order {
  order_id: string;
  order_state: OrderState;
  order_type: string;
  instrument_name: string;
  direction: 'buy' | 'sell';
  price: number | 'market_price';
  amount: number;
  filled_amount?: number;
  average_price?: number;
  time_in_force: string;
  creation_timestamp: number;
  last_update_timestamp: number;
  post_only?: boolean;
  /** The displayed amount; `max_show` is the older name. */
  display_amount?: number;
  max_show?: number;
  cancel_reason?: string;
  /** Pitwire extension: the visible amount that trades before this order. */
  queue_ahead?: number;
  /** For stops. */
  trigger_price?: number;
  triggered?: boolean;
  /** Pitwire extension: times in force that the dialect does not have. */
  hidden?: boolean;
  min_execution?: number;
  tif_ext?: string;
  expires_at?: number | string;
  /** Parked until its session. */
  parked?: boolean;
}

export interface Fill {
  trade_id: string;
  trade_seq: number;
  order_id: string;
  instrument_name: string;
  direction: 'buy' | 'sell';
  price: number;
  amount: number;
  fee: number;
  fee_currency: string;
  timestamp: number;
  /** `M` for maker, `T` for taker. */
  liquidity: 'M' | 'T';
  profit_loss?: number;
}

export interface Summary {
  currency: string;
  equity: number;
  balance: number;
  available_funds: number;
  initial_margin?: number;
  maintenance_margin?: number;
  spot_reserve?: number;
}

export interface Position {
  instrument_name: string;
  direction: 'buy' | 'sell' | 'zero';
  size: number;
  size_currency?: number;
  average_price: number;
  mark_price: number;
  floating_profit_loss: number;
  realized_profit_loss: number;
  initial_margin: number;
  estimated_liquidation_price?: number;
  leverage?: number;
}

export interface Currency {
  currency: string;
  decimals?: number;
  fee_precision?: number;
}

export function isOpen(order: Order): boolean {
  return order.order_state === 'open' || order.order_state === 'untriggered';
}

/** A partly filled order is "open" on the wire; the page shows the difference. */
export function stateWords(order: Order): string {
  const partly = (order.filled_amount ?? 0) > 0;
  if (order.order_state === 'open' && order.parked) return partly ? 'partly filled, set aside' : 'set aside';
  if (order.order_state === 'open' && partly) return 'partly filled';
  if (order.order_state !== 'cancelled') return order.order_state;
  const reason = order.cancel_reason?.replaceAll('_', ' ');
  const words = partly ? 'partly filled, rest cancelled' : 'cancelled';
  return reason === undefined || reason === 'user request' ? words : `${words} (${reason})`;
}

const SHORT_TERMS: Record<string, string> = {
  good_til_cancelled: 'GTC',
  good_til_day: 'DAY',
  immediate_or_cancel: 'IOC',
  fill_or_kill: 'FOK',
};

/** "limit GTC post-only, shows 20". */
export function termWords(order: Order): string {
  const shown = order.display_amount ?? order.max_show ?? order.amount;
  const words = [order.order_type.replaceAll('_', ' ')];
  if (order.hidden) words.unshift('hidden');
  if (order.trigger_price !== undefined) words.push(`at ${order.trigger_price}`);
  const terms = order.tif_ext?.toUpperCase() ?? SHORT_TERMS[order.time_in_force] ?? order.time_in_force;
  if (order.order_type !== 'market' || order.tif_ext !== undefined) words.push(terms);
  if (order.expires_at !== undefined) words.push(`to ${until(order.expires_at)}`);
  if (order.min_execution !== undefined) words.push(`at least ${order.min_execution}`);
  if (order.post_only) words.push('post-only');
  if (!order.hidden && shown < order.amount) words.push(`shows ${shown}`);
  return words.join(' ');
}

/** A date unchanged; a time of day in UTC. */
function until(expires: number | string): string {
  return typeof expires === 'string' ? expires : clock(expires);
}

/**
 * Orders by id, oldest first. The number of closed ones is limited, because a page may stay open
 * for days.
 */
export class OrderLog {
  #orders = new Map<string, Order>();

  clear(): void {
    this.#orders.clear();
  }

  put(order: Order): void {
    this.#orders.set(order.order_id, order);
  }

  /** Open orders, newest first. */
  open(): Order[] {
    return [...this.#orders.values()].filter(isOpen).sort(newestFirst);
  }

  /** The newest closed orders. */
  closed(limit: number): Order[] {
    const closed = [...this.#orders.values()].filter((order) => !isOpen(order));
    closed.sort((a, b) => b.last_update_timestamp - a.last_update_timestamp || newestFirst(a, b));
    for (const order of closed.slice(limit)) this.#orders.delete(order.order_id);
    return closed.slice(0, limit);
  }
}

function newestFirst(a: Order, b: Order): number {
  return b.creation_timestamp - a.creation_timestamp || Number(b.order_id) - Number(a.order_id);
}

/**
 * Adds fills to a list with the newest first. History and stream overlap, so duplicates are
 * dropped.
 */
export function mergeFills(known: readonly Fill[], incoming: readonly Fill[], limit: number): Fill[] {
  const byKey = new Map<string, Fill>();
  // Both sides of a self-trade have the same trade id.
  for (const fill of [...known, ...incoming]) byKey.set(`${fill.trade_id}/${fill.order_id}`, fill);
  return [...byKey.values()]
    .sort((a, b) => b.timestamp - a.timestamp || b.trade_seq - a.trade_seq)
    .slice(0, limit);
}
