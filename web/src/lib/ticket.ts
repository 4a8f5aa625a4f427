import { isMultiple, parse } from './decimal';
import type { Instrument } from './venue';

export const TERMS = [
  ['good_til_cancelled', 'GTC', 'Good till cancelled'],
  ['good_til_day', 'DAY', 'Good for the day'],
  ['immediate_or_cancel', 'IOC', 'Immediate or cancel'],
  ['fill_or_kill', 'FOK', 'Fill or kill'],
] as const;

export interface Form {
  side: 'buy' | 'sell';
  type: 'limit' | 'market';
  /** As typed. */
  price: string;
  amount: string;
  terms: (typeof TERMS)[number][0];
  postOnly: boolean;
  /** With post-only: refused where it would trade at once, instead of moved one tick away. */
  rejectPostOnly: boolean;
  /** How much of an iceberg others see; empty for all of it. */
  display: string;
}

export type Field = 'price' | 'amount' | 'display';

export function blank(): Form {
  return {
    side: 'buy',
    type: 'limit',
    price: '',
    amount: '',
    terms: 'good_til_cancelled',
    postOnly: false,
    rejectPostOnly: false,
    display: '',
  };
}

/**
 * What is odd about a field, in words. Only text that is not a number keeps an order from being sent: the venue is the
 * judge of everything else, and says which rule it broke.
 */
export function hint(field: Field, form: Form, instrument: Instrument): string | null {
  const text = form[field].trim();
  if (text === '') return null;
  if (parse(text) === null) return 'not a number';
  const step = field === 'price' ? instrument.tick_size : instrument.min_trade_amount;
  const name = field === 'price' ? 'tick' : 'lot';
  return isMultiple(text, step) ? null : `not a multiple of the ${name}, ${step}`;
}

/** The parameters of `private/buy` or `private/sell`, or the field that is missing. */
export function params(form: Form, instrument: Instrument): { missing: Field } | { params: object } {
  const amount = number(form.amount);
  if (amount === null) return { missing: 'amount' };
  const common = { instrument_name: instrument.instrument_name, amount, type: form.type };
  if (form.type === 'market') return { params: common };
  const price = number(form.price);
  if (price === null) return { missing: 'price' };
  const display = number(form.display);
  if (display === null && form.display.trim() !== '') return { missing: 'display' };
  return {
    params: {
      ...common,
      price,
      time_in_force: form.terms,
      ...(form.postOnly && { post_only: true, reject_post_only: form.rejectPostOnly }),
      ...(display !== null && { display_amount: display }),
    },
  };
}

/** What the order is worth in the other currency; an inverse contract is paid for in its base. */
export function worth(form: Form, instrument: Instrument, marketPrice: number | undefined): number | null {
  const amount = number(form.amount);
  const price = form.type === 'limit' ? number(form.price) : (marketPrice ?? null);
  if (amount === null || price === null || price === 0) return null;
  return instrument.instrument_type === 'reversed' ? amount / price : amount * price;
}

function number(text: string): number | null {
  return parse(text) === null ? null : Number(text.trim());
}
