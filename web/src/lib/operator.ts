// What an operator sees and commands, as far as this page reads it.

export interface Flow {
  running: boolean;
  /** Of the rate that the preset asks for. */
  rate_percent: number;
}

export interface VenueStatus {
  epoch: number;
  durability: string;
  venue_time: number | string;
  /** Of the last journaled command. */
  sequence: number;
  live_orders?: number;
  takes_orders?: boolean;
  flow: Flow;
  venue_killed: boolean;
  tape_hash?: string;
}

export interface Limits {
  max_open_orders?: number;
  max_executions?: number;
  execution_window_ms?: number;
  self_match?: string;
}

export interface AccountRow {
  account: number;
  name: string;
  credit: string;
  killed: boolean;
  /** It traded more often than its limit allows, and is out until a lift. */
  throttled?: boolean;
  closed: boolean;
  open_orders: number;
  limits?: Limits;
}

export interface NewAccount {
  name: string;
  client_id: string;
  client_secret: string;
}

export interface LiveOrder {
  order_id: string;
  name: string;
  /** The connection that it came by; 0 for none. */
  session: number;
  instrument_name: string;
  direction: 'buy' | 'sell';
  price: number;
  amount: number;
}

export type Scope = 'venue' | 'account' | 'session' | 'order';

/** The fields of a form as parameters: what was left empty is left out, what is a number goes as one. */
export function fromForm(form: HTMLFormElement): Record<string, string | number> {
  const params: Record<string, string | number> = {};
  for (const field of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>(
    'input[name], select[name]',
  )) {
    const text = field.value.trim();
    if (text !== '') params[field.name] = field.dataset.kind === 'number' ? Number(text) : text;
  }
  return params;
}
