// The operator's data and commands that this page uses.

export interface FlowSetting {
  running: boolean;
  /** Percent of the rate of the preset; for an instrument, percent of the whole flow's rate. */
  rate_percent: number;
}

export interface InstrumentFlow extends FlowSetting {
  instrument_name: string;
}

export interface Flow extends FlowSetting {
  /** Instruments whose setting differs from running at 100 percent. */
  instruments?: InstrumentFlow[];
}

export interface VenueStatus {
  epoch: number;
  durability: string;
  venue_time: number | string;
  /** Number of the last journaled command. */
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
  /** The throttle has tripped; the account is blocked until a lift. */
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
  /** The session of the order; 0 for none. */
  session: number;
  instrument_name: string;
  direction: 'buy' | 'sell';
  price: number;
  amount: number;
}

export type Scope = 'venue' | 'account' | 'session' | 'order';

/** Converts form fields to parameters. Empty fields are omitted; numbers are sent as numbers. */
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
