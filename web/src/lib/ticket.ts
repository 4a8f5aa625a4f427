import type { Level } from './book';
import { isMultiple, onGrid, parse } from './decimal';
import type { Instrument } from './venue';

export const TERMS = [
  ['good_til_cancelled', 'GTC', 'Good till cancelled', 'gtc'],
  ['good_til_day', 'DAY', 'Good for the day', 'day'],
  ['immediate_or_cancel', 'IOC', 'Immediate or cancel', 'ioc'],
  ['fill_or_kill', 'FOK', 'Fill or kill', 'fok'],
  ['gtd', 'GTD', 'Good till a date', 'gtd'],
  ['gtt', 'GTT', 'Good till a time of this day', 'gtt'],
  ['opg', 'OPG', 'The opening auction alone', 'opg'],
  ['gfa', 'GFA', 'Every auction', 'gfa'],
  ['gfx', 'GFX', 'The next intraday auction', 'gfx'],
  ['atc', 'ATC', 'The closing auction', 'atc'],
  ['cpx', 'CPX', 'The closing price cross', 'cpx'],
] as const;

export type Terms = (typeof TERMS)[number][0];
export type OrderType = 'limit' | 'market' | 'stop_market' | 'stop_limit' | 'hidden';

export const TYPES: [OrderType, string][] = [
  ['limit', 'Limit'],
  ['market', 'Market'],
  ['stop_market', 'Stop'],
  ['stop_limit', 'Stop limit'],
  ['hidden', 'Hidden'],
];

/**
 * The dialect has the first four. The others are sent as an extension with the nearest of the four.
 */
const DIALECT: ReadonlySet<Terms> = new Set<Terms>(TERMS.slice(0, 4).map(([word]) => word));

/** The name of this order type in the rule tables. */
export function columns(form: Form): { type: string; tif: string } {
  const type = {
    limit: 'limit',
    market: 'market',
    stop_market: 'stop',
    stop_limit: 'stop_limit',
    hidden: 'hidden',
  };
  const shows = form.display.trim() !== '' && form.type === 'limit';
  const tif = TERMS.find(([word]) => word === form.terms)![3];
  // In the dialect a market order without a time in force is a day order.
  const says = form.type === 'market' && form.terms === 'good_til_cancelled' ? 'day' : tif;
  return { type: shows ? 'iceberg' : type[form.type], tif: says };
}

export const hasPrice = (type: OrderType): boolean => type !== 'market' && type !== 'stop_market';
export const hasStop = (type: OrderType): boolean => type === 'stop_market' || type === 'stop_limit';

export interface Form {
  side: 'buy' | 'sell';
  type: OrderType;
  /** As typed. */
  price: string;
  amount: string;
  terms: Terms;
  /** A date for GTD, a time of the day (UTC) for GTT. */
  expires: string;
  /** For stops. */
  stop: string;
  /** Minimum execution size of a hidden order; empty for the whole quantity. */
  minimum: string;
  postOnly: boolean;
  /** With post-only: refuse an order that would trade, instead of moving it one tick away. */
  rejectPostOnly: boolean;
  /** Displayed quantity of an iceberg; empty for the whole quantity. */
  display: string;
}

export type Field = 'price' | 'amount' | 'display' | 'stop' | 'minimum';

export function blank(): Form {
  return {
    side: 'buy',
    type: 'limit',
    price: '',
    amount: '',
    terms: 'good_til_cancelled',
    expires: '',
    stop: '',
    minimum: '',
    postOnly: false,
    rejectPostOnly: false,
    display: '',
  };
}

/**
 * Describes a problem of a field. Only text that is not a number prevents sending. The venue
 * judges everything else and names the rule.
 */
export function hint(field: Field, form: Form, instrument: Instrument): string | null {
  const text = form[field].trim();
  if (text === '') return null;
  if (parse(text) === null) return 'not a number';
  const onTicks = field === 'price' || field === 'stop';
  const step = onTicks ? instrument.tick_size : instrument.min_trade_amount;
  const name = onTicks ? 'tick' : 'lot';
  return isMultiple(text, step) ? null : `not a multiple of the ${name}, ${step}`;
}

/**
 * The parameters of `private/buy` or `private/sell`, or the field that is missing. `now` is the
 * venue's time.
 */
export function params(
  form: Form,
  instrument: Instrument,
  now: number | null = null,
): { missing: Field | 'expires' } | { params: object } {
  const amount = number(form.amount);
  if (amount === null) return { missing: 'amount' };
  const type = form.type === 'hidden' ? 'limit' : form.type;
  const made: Record<string, unknown> = { instrument_name: instrument.instrument_name, amount, type };
  if (hasPrice(form.type)) {
    const price = number(form.price);
    if (price === null) return { missing: 'price' };
    made.price = price;
  }
  if (hasStop(form.type)) {
    const stop = number(form.stop);
    if (stop === null) return { missing: 'stop' };
    Object.assign(made, { trigger: 'last_price', trigger_price: stop });
  }
  // A market order has no time in force in the dialect, unless it waits for a call.
  if (form.type !== 'market' || !DIALECT.has(form.terms))
    made[DIALECT.has(form.terms) ? 'time_in_force' : 'tif_ext'] = form.terms;
  if (form.terms === 'gtd' || form.terms === 'gtt') {
    const expires = form.terms === 'gtd' ? form.expires.trim() || null : timeOfDay(form.expires, now);
    if (expires === null) return { missing: 'expires' };
    made.expires_at = expires;
  }
  if (form.type === 'limit') {
    const display = number(form.display);
    if (display === null && form.display.trim() !== '') return { missing: 'display' };
    if (form.postOnly) Object.assign(made, { post_only: true, reject_post_only: form.rejectPostOnly });
    if (display !== null) made.display_amount = display;
  }
  if (form.type === 'hidden') {
    const minimum = number(form.minimum);
    if (minimum === null && form.minimum.trim() !== '') return { missing: 'minimum' };
    made.hidden = true;
    if (minimum !== null) made.min_execution = minimum;
  }
  return { params: made };
}

/**
 * `14:30` or `14:30:15` of the venue's day, in UTC as all times of this page, as milliseconds since
 * 1970.
 */
export function timeOfDay(text: string, now: number | null): number | null {
  const parts = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/.exec(text.trim());
  if (!parts || now === null) return null;
  const midnight = Math.floor(now / 86_400_000) * 86_400_000;
  return midnight + (Number(parts[1]) * 3600 + Number(parts[2]) * 60 + Number(parts[3] ?? 0)) * 1000;
}

/**
 * The value of the order in the other currency. An inverse contract is paid in its base currency.
 */
export function worth(form: Form, instrument: Instrument, marketPrice: number | undefined): number | null {
  const amount = number(form.amount);
  const price = hasPrice(form.type)
    ? number(form.price)
    : form.type === 'stop_market'
      ? number(form.stop)
      : (marketPrice ?? null);
  if (amount === null || price === null || price === 0) return null;
  return instrument.instrument_type === 'reversed' ? amount / price : amount * price;
}

/** Why the form cannot be sent as it stands, or null. The venue still judges everything else. */
export function unsendable(form: Form, instrument: Instrument, now: number | null = null): string | null {
  const amount = number(form.amount);
  if (form.amount.trim() === '') return 'Enter an amount.';
  if (amount === null) return 'The amount is not a number.';
  if (amount <= 0) return 'The amount must be above zero.';
  const made = params(form, instrument, now);
  if (!('missing' in made)) return null;
  const words = { stop: 'stop price', minimum: 'minimum execution', expires: 'expiry' } as Record<
    string,
    string
  >;
  return `The ${words[made.missing] ?? made.missing} is missing or is not a number.`;
}

/** What an order would trade at once against the visible book. */
export interface Estimate {
  /** The part of the amount that finds a counterparty. */
  amount: number;
  average: number;
  /** How much worse the average is than the best price, in the price's unit; never negative. */
  slippage: number;
}

/**
 * Walks the visible opposite side, best level first. Null if the order trades nothing at once: it
 * rests, waits for a
 * trigger or an auction, or the side is empty. Hidden orders are not visible, so the real average
 * may be better.
 */
export function estimate(form: Form, opposite: readonly Level[]): Estimate | null {
  const amount = number(form.amount);
  const limit = form.type === 'market' ? null : number(form.price);
  const best = opposite[0]?.[0];
  if (amount === null || amount <= 0 || best === undefined) return null;
  if (form.type !== 'market' && (form.type !== 'limit' || limit === null || form.postOnly)) return null;
  let [left, cost] = [amount, 0];
  for (const [price, there] of opposite) {
    if (left <= 0 || (limit !== null && (form.side === 'buy' ? price > limit : price < limit))) break;
    const taken = Math.min(left, there);
    cost += taken * price;
    left -= taken;
  }
  const traded = amount - Math.max(0, left);
  if (traded <= 0) return null;
  const average = cost / traded;
  return {
    amount: traded,
    average,
    slippage: Math.max(0, form.side === 'buy' ? average - best : best - average),
  };
}

/**
 * The amount that `share` (0 to 1) of the free funds pays for, rounded down to lots; empty if that
 * is less than one lot.
 * Contracts are taken without leverage: the whole share buys a position of the same worth.
 */
export function portion(
  share: number,
  free: number,
  price: number,
  side: Form['side'],
  instrument: Instrument,
): string {
  const sells = instrument.settlement_currency === undefined && side === 'sell';
  const wanted = sells
    ? free * share
    : instrument.instrument_type === 'reversed'
      ? free * share * price
      : (free * share) / price;
  // A hair more than a whole number of lots is binary rounding, not a lot that is missing.
  const lots = Math.floor(wanted / instrument.min_trade_amount + 1e-9);
  return lots < 1 ? '' : onGrid(lots * instrument.min_trade_amount, instrument.min_trade_amount);
}

function number(text: string): number | null {
  return parse(text) === null ? null : Number(text.trim());
}
