import { OrderLog, isOpen, mergeFills, type Currency, type Fill, type Order } from '../lib/account';
import type { Position, Summary } from '../lib/account';
import { Connection, type Socket } from '../lib/connection';
import { explain, type Answer } from '../lib/answer';
import { RpcError } from '../lib/rpc';

/** The key of session storage that holds the login of this tab. */
const LOGIN_KEY = 'pitwire.login';
const CLOSED_SHOWN = 100;
const FILLS_SHOWN = 200;
const POLL_INTERVAL = 2_000;
const HOUR_MS = 3_600_000;
/** Events come in bursts, such as a cancel-all. The lists are rebuilt once per burst. */
const SETTLE = 40;
/** Delay between a change of own orders and the next request for balances. */
const AFTER_EVENTS = 200;

const ORDERS = 'user.orders.any.any.raw';
const FILLS = 'user.trades.any.any.raw';
const PORTFOLIO = 'user.portfolio.any';

interface Session {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  scope: string;
}

/** What a login is renewed with: the client's secret, or the token of a login before a reload. */
type Grant =
  | { grant_type: 'client_credentials'; client_id: string; client_secret: string; scope: string }
  | { grant_type: 'refresh_token'; refresh_token: string };

/** `away`: logged in before the connection was lost. The page logs in again on reconnect. */
export type MemberPhase = 'out' | 'entering' | 'in' | 'away';

/** The logged-in account with its own socket, so logging out ends all of its requests. */
export class Member {
  phase = $state<MemberPhase>('out');
  name = $state<string | null>(null);
  operator = $state(false);
  /** The venue's clock moves only when an operator advances it. */
  manualClock = $state(false);
  /** The venue runs simulations for this login. */
  simulates = $state(false);
  refusal = $state.raw<Answer | null>(null);
  open = $state.raw<Order[]>([]);
  closed = $state.raw<Order[]>([]);
  fills = $state.raw<Fill[]>([]);
  balances = $state.raw<Summary[]>([]);
  positions = $state.raw<Position[]>([]);
  /** Decimals of each currency, by name. */
  decimals = $state.raw<ReadonlyMap<string, number>>(new Map());
  #openSocket: () => Socket;
  #connection: Connection | null = null;
  #grant: Grant | null = null;
  #log = new OrderLog();
  #polled = false;
  #settling: ReturnType<typeof setTimeout> | undefined;
  #after: ReturnType<typeof setTimeout> | undefined;
  #polling: ReturnType<typeof setInterval> | undefined;
  #refreshing: ReturnType<typeof setTimeout> | undefined;

  constructor(openSocket: () => Socket) {
    this.#openSocket = openSocket;
  }

  get active(): boolean {
    return this.phase === 'in' || this.phase === 'away';
  }

  login(clientId: string, secret: string): void {
    this.#open(clientId, {
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: secret,
      // The tokens of a named session outlive its connection, so that a reload can go on with them.
      scope: `session:page-${Math.random().toString(36).slice(2)}`,
    });
  }

  /**
   * Continues the login that this tab had before a reload, if it had one. The secret is never
   * stored.
   */
  resume(): void {
    const saved = readLogin();
    if (saved) this.#open(saved.name, { grant_type: 'refresh_token', refresh_token: saved.token });
  }

  #open(name: string, grant: Grant): void {
    this.stop();
    this.phase = 'entering';
    this.name = name;
    this.#grant = grant;
    const connection: Connection = new Connection(
      this.#openSocket,
      {
        status: () => undefined,
        live: () => {
          this.phase = 'in';
          void this.#load(connection);
        },
        lost: () => {
          if (this.phase === 'in') this.phase = 'away';
          clearTimeout(this.#refreshing);
        },
        roundTrip: () => undefined,
        problem: () => undefined,
      },
      { scope: 'private', hello: (call) => this.#enter(connection, call) },
    );
    this.#connection = connection;
    connection.subscribe([ORDERS], (data) => this.#onOrder(data as Order));
    connection.subscribe([FILLS], (data) => this.#onFills(data as Fill[]));
    connection.subscribe(
      [PORTFOLIO],
      (data) => this.#onBalance(data as Summary),
      () => (this.#polled = true),
    );
    this.#polling = setInterval(() => void this.#poll(), POLL_INTERVAL);
    connection.start();
  }

  /** Ends the login, here and for a reload of the tab. */
  logout(): void {
    saveLogin(null);
    // The venue then forgets the tokens; if it does not answer, they expire.
    if (this.phase === 'in')
      this.#connection?.call('private/logout', { invalidate_token: true }).catch(() => undefined);
    this.stop();
  }

  /** Closes the connection. A reload of the tab can resume the login. */
  stop(): void {
    clearInterval(this.#polling);
    clearTimeout(this.#refreshing);
    clearTimeout(this.#settling);
    clearTimeout(this.#after);
    this.#settling = this.#after = undefined;
    this.#connection?.stop();
    this.#connection = null;
    this.#grant = null;
    this.phase = 'out';
    this.name = null;
    this.operator = this.manualClock = this.simulates = false;
    this.refusal = null;
    this.#polled = false;
    this.#log.clear();
    this.open = this.closed = [];
    this.fills = [];
    this.balances = [];
    this.positions = [];
  }

  call<T>(method: string, params: object = {}): Promise<T> {
    return this.#connection?.call<T>(method, params) ?? Promise.reject(new Error('not logged in'));
  }

  place(side: 'buy' | 'sell', params: object): Promise<{ order: Order; trades: Fill[] }> {
    return this.call(`private/${side}`, params);
  }

  edit(id: string, amount: number, price: number): Promise<{ order: Order }> {
    return this.call('private/edit', { order_id: id, amount, price });
  }

  cancel(id: string): Promise<Order> {
    return this.call('private/cancel', { order_id: id });
  }

  /** Cancels the orders of all instruments or of one. Returns their number. */
  cancelAll(instrument: string | null): Promise<number> {
    return instrument === null
      ? this.call('private/cancel_all')
      : this.call('private/cancel_all_by_instrument', { instrument_name: instrument });
  }

  closePosition(instrument: string): Promise<{ order: Order }> {
    return this.call('private/close_position', { instrument_name: instrument, type: 'market' });
  }

  /** Advances a manual clock, in steps of at most an hour as the venue asks. */
  async advance(milliseconds: number): Promise<void> {
    for (let left = Math.ceil(milliseconds); left > 0; left -= HOUR_MS)
      await this.call('private/pitwire_advance', { ns: Math.min(left, HOUR_MS) * 1_000_000 });
  }

  async #enter(connection: Connection, call: Connection['call']): Promise<void> {
    const grant = this.#grant;
    if (grant === null) return;
    try {
      this.#entered(await call<Session>('public/auth', grant), call);
    } catch (error) {
      // A second try with the same grant would only be throttled.
      if (error instanceof RpcError && this.#connection === connection) {
        this.logout();
        this.refusal =
          grant.grant_type === 'client_credentials'
            ? explain(error)
            : { good: false, title: 'The login of this tab has ended. Log in again.' };
      }
      throw error;
    }
  }

  #entered(session: Session, call: Connection['call']): void {
    this.operator = session.scope.split(' ').some((part) => part.startsWith('operator:'));
    if (this.name !== null) saveLogin({ name: this.name, token: session.refresh_token });
    // A token works once, so a login without a secret goes on with the newest one.
    if (this.#grant?.grant_type === 'refresh_token')
      this.#grant = { grant_type: 'refresh_token', refresh_token: session.refresh_token };
    clearTimeout(this.#refreshing);
    this.#refreshing = setTimeout(() => {
      const grant = { grant_type: 'refresh_token', refresh_token: session.refresh_token };
      call<Session>('public/auth', grant).then(
        (next) => this.#entered(next, call),
        // The next call then shows the venue's error.
        () => undefined,
      );
    }, session.expires_in * 800);
  }

  /**
   * The channels are subscribed already and a socket keeps order, so later messages are newer than
   * the answer.
   */
  async #load(connection: Connection): Promise<void> {
    this.#log.clear();
    connection.call('private/pitwire_get_simulations').then(
      () => (this.simulates = true),
      () => (this.simulates = false),
    );
    if (this.operator)
      connection.call('private/pitwire_advance', { ns: 0 }).then(
        () => (this.manualClock = true),
        () => (this.manualClock = false),
      );
    const answers = await Promise.allSettled([
      connection.call<Order[]>('private/get_order_history_by_currency', {
        currency: 'any',
        count: CLOSED_SHOWN,
        // Without it the venue leaves out orders that were cancelled without a fill.
        include_unfilled: true,
      }),
      connection.call<Order[]>('private/get_open_orders').then((orders) => this.#replaceOpen(orders)),
      connection.call<{ trades: Fill[] }>('private/get_user_trades_by_currency', {
        currency: 'any',
        count: FILLS_SHOWN,
      }),
      connection.call<Currency[]>('public/get_currencies'),
      this.#readBalances(),
      this.#readPositions(),
    ]);
    if (this.#connection !== connection) return;
    const [history, , trades, currencies] = answers;
    if (history.status === 'fulfilled')
      for (const order of history.value) if (!isOpen(order)) this.#log.put(order);
    if (trades.status === 'fulfilled') this.#onFills(trades.value.trades);
    if (currencies.status === 'fulfilled')
      this.decimals = new Map(
        currencies.value.map((entry) => [entry.currency, entry.decimals ?? entry.fee_precision ?? 8]),
      );
    this.#settle();
  }

  #replaceOpen(orders: Order[]): void {
    for (const order of orders) this.#log.put(order);
    this.#settle();
  }

  #onOrder(order: Order): void {
    this.#log.put(order);
    this.#settle();
  }

  #onFills(fills: Fill[]): void {
    this.fills = mergeFills(this.fills, fills, FILLS_SHOWN);
  }

  #onBalance(summary: Summary): void {
    const rest = this.balances.filter((held) => held.currency !== summary.currency);
    if (rest.length < this.balances.length)
      this.balances = this.balances.map((held) => (held.currency === summary.currency ? summary : held));
    else this.balances = [...rest, summary];
  }

  #settle(): void {
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined;
      this.open = this.#log.open();
      this.closed = this.#log.closed(CLOSED_SHOWN);
      this.#after ??= setTimeout(() => {
        this.#after = undefined;
        void this.#poll();
      }, AFTER_EVENTS);
    }, SETTLE);
  }

  /**
   * Data without a channel: the value of positions, and balances if the venue does not stream them.
   */
  async #poll(): Promise<void> {
    if (this.phase !== 'in') return;
    // With an open position equity also moves with the market.
    const moving = this.#polled || this.positions.length > 0;
    await Promise.allSettled([moving ? this.#readBalances() : null, this.#readPositions()]);
  }

  async #readBalances(): Promise<void> {
    const connection = this.#connection;
    const { summaries } = await this.call<{ summaries: Summary[] }>('private/get_account_summaries');
    if (this.#connection === connection) this.balances = summaries;
  }

  async #readPositions(): Promise<void> {
    const connection = this.#connection;
    const positions = await this.call<Position[]>('private/get_positions', { currency: 'any' });
    if (this.#connection === connection)
      this.positions = positions.filter((held) => held.direction !== 'zero');
  }
}

interface SavedLogin {
  name: string;
  token: string;
}

function readLogin(): SavedLogin | null {
  try {
    const saved = JSON.parse(sessionStorage.getItem(LOGIN_KEY) ?? 'null') as Partial<SavedLogin> | null;
    return typeof saved?.name === 'string' && typeof saved.token === 'string' ? (saved as SavedLogin) : null;
  } catch {
    return null;
  }
}

/** Session storage ends with the tab and is never shared with another one. */
function saveLogin(login: SavedLogin | null): void {
  try {
    if (login === null) sessionStorage.removeItem(LOGIN_KEY);
    else sessionStorage.setItem(LOGIN_KEY, JSON.stringify(login));
  } catch {
    // Storage is forbidden: the login then ends with a reload.
  }
}
