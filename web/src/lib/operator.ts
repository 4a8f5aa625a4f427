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
  commands: number;
  sequence: number;
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
  closed: boolean;
  open_orders: number;
  limits?: Limits;
}

export interface NewAccount {
  name: string;
  client_id: string;
  client_secret: string;
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
