import { explain, type Answer } from '../lib/answer';
import type { AccountRow, Flow, LiveOrder, NewAccount, Scope, VenueStatus } from '../lib/operator';
import { RpcError } from '../lib/rpc';
import type { Desk } from './desk.svelte';

const POLL_INTERVAL = 1_500;
const METHOD_NOT_FOUND = -32601;

/** The venue as its operator sees it: asked for again and again while the panel is open. */
export class Operator {
  status = $state.raw<VenueStatus | null>(null);
  accounts = $state.raw<AccountRow[]>([]);
  /** Why there is nothing to show. */
  problem = $state.raw<Answer | null>(null);
  /** The venue is older than these commands. */
  unknown = $state(false);
  #desk: Desk;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  start(): void {
    void this.refresh();
    this.#timer = setInterval(() => void this.refresh(), POLL_INTERVAL);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async refresh(): Promise<void> {
    if (this.#desk.phase !== 'in') return;
    try {
      [this.status, this.accounts] = await Promise.all([
        this.#desk.call<VenueStatus>('private/pitwire_status'),
        this.#desk.call<AccountRow[]>('private/pitwire_get_accounts'),
      ]);
      this.problem = null;
      this.unknown = false;
    } catch (error) {
      this.unknown = error instanceof RpcError && error.code === METHOD_NOT_FOUND;
      this.problem = explain(error);
    }
  }

  halt(instrument: string): Promise<unknown> {
    return this.#command('halt', { instrument_name: instrument });
  }

  resume(instrument: string): Promise<unknown> {
    return this.#command('resume', { instrument_name: instrument });
  }

  pause(instrument: string): Promise<unknown> {
    return this.#command('pause', { instrument_name: instrument });
  }

  /** Starts a volatility call, that ends after `seconds`. */
  volatilityCall(instrument: string, seconds: number): Promise<unknown> {
    return this.#command('volatility_call', { instrument_name: instrument, seconds });
  }

  haltAndClose(instrument: string): Promise<unknown> {
    return this.#command('halt_and_close', { instrument_name: instrument });
  }

  setClosingPrice(instrument: string, price: number): Promise<unknown> {
    return this.#command('closing_price', { instrument_name: instrument, price });
  }

  /** A call that an operator ends, or that ends by itself after `seconds`. */
  reopen(instrument: string, seconds?: number): Promise<unknown> {
    return this.#command('reopen', {
      instrument_name: instrument,
      ...(seconds !== undefined && { seconds }),
    });
  }

  /** Lets the call that runs end so many seconds from now. */
  extend(instrument: string, seconds: number): Promise<unknown> {
    return this.#command('extend', { instrument_name: instrument, seconds });
  }

  createInstrument(params: object): Promise<unknown> {
    return this.#command('create_instrument', params);
  }

  changeInstrument(params: object): Promise<unknown> {
    return this.#command('change_instrument', params);
  }

  deleteInstrument(instrument: string): Promise<unknown> {
    return this.#command('delete_instrument', { instrument_name: instrument });
  }

  createAccount(name: string): Promise<NewAccount> {
    return this.#command('create_account', { name });
  }

  /** Further credentials for an account: the way back when a secret is lost. */
  createCredential(name: string): Promise<NewAccount> {
    return this.#command('create_credential', { name });
  }

  /** Live orders with their sessions, of one account or of all. */
  orders(name: string, count: number): Promise<LiveOrder[]> {
    return this.#desk.call('private/pitwire_get_orders', { ...(name !== '' && { name }), count });
  }

  setCreditLine(params: object): Promise<unknown> {
    return this.#command('set_credit_line', params);
  }

  changeAccount(params: object): Promise<unknown> {
    return this.#command('change_account', params);
  }

  deleteAccount(name: string): Promise<unknown> {
    return this.#command('delete_account', { name });
  }

  deposit(params: object): Promise<unknown> {
    return this.#command('deposit', params);
  }

  flow(action: 'start' | 'stop' | 'status', ratePercent?: number): Promise<Flow> {
    return this.#command('flow', { action, ...(ratePercent !== undefined && { rate_percent: ratePercent }) });
  }

  kill(scope: Scope, target: object, reason: string): Promise<{ cancelled: number }> {
    return this.#command('kill', { scope, ...target, reason });
  }

  lift(scope: Scope, target: object): Promise<unknown> {
    return this.#command('lift', { scope, ...target });
  }

  bust(tradeId: string, reason: string): Promise<unknown> {
    return this.#command('bust', { trade_id: tradeId, reason });
  }

  async #command<T>(name: string, params: object): Promise<T> {
    const result = await this.#desk.call<T>(`private/pitwire_${name}`, params);
    void this.refresh();
    return result;
  }
}
