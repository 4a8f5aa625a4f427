import { explain, type Answer } from '../lib/answer';
import type {
  AccountRow,
  Flow,
  InstrumentFlow,
  LiveOrder,
  NewAccount,
  Scope,
  VenueStatus,
} from '../lib/operator';
import { RpcError } from '../lib/rpc';
import type { Member } from './member.svelte';

const POLL_INTERVAL = 1_500;
const METHOD_NOT_FOUND = -32601;

/** The operator's view of the venue, polled while the panel is open. */
export class Operator {
  status = $state.raw<VenueStatus | null>(null);
  accounts = $state.raw<AccountRow[]>([]);
  /** The reason for an empty panel. */
  problem = $state.raw<Answer | null>(null);
  /** The venue is too old to know these commands. */
  unknown = $state(false);
  #member: Member;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(member: Member) {
    this.#member = member;
  }

  start(): void {
    void this.refresh();
    this.#timer = setInterval(() => void this.refresh(), POLL_INTERVAL);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async refresh(): Promise<void> {
    if (this.#member.phase !== 'in') return;
    try {
      [this.status, this.accounts] = await Promise.all([
        this.#member.call<VenueStatus>('private/pitwire_status'),
        this.#member.call<AccountRow[]>('private/pitwire_get_accounts'),
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

  /** Begins a call that an operator ends, or that ends by itself after `seconds`. */
  reopen(instrument: string, seconds?: number): Promise<unknown> {
    return this.#command('reopen', {
      instrument_name: instrument,
      ...(seconds !== undefined && { seconds }),
    });
  }

  /** Moves the end of the running call to the given number of seconds from now. */
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

  /** Makes further credentials for an account, for example after a lost secret. */
  createCredential(name: string): Promise<NewAccount> {
    return this.#command('create_credential', { name });
  }

  /** Reads the live orders of one account or of all, with their sessions. */
  orders(name: string, count: number): Promise<LiveOrder[]> {
    return this.#member.call('private/pitwire_get_orders', { ...(name !== '' && { name }), count });
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

  /** Starts or stops the flow of one instrument, at a rate in percent of the whole flow's rate. */
  instrumentFlow(
    instrument: string,
    action: 'start' | 'stop',
    ratePercent?: number,
  ): Promise<InstrumentFlow> {
    return this.#command('flow', {
      action,
      instrument_name: instrument,
      ...(ratePercent !== undefined && { rate_percent: ratePercent }),
    });
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
    const result = await this.#member.call<T>(`private/pitwire_${name}`, params);
    void this.refresh();
    return result;
  }
}
