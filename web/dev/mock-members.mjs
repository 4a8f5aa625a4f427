// Accounts of the stand-in: enough of order entry to write a page against, and no more. An order
// that reaches the touch fills there at once; any other waits, outside of the random book.

export const DAY = 24 * 3600 * 1000;

export class Refusal extends Error {
  constructor(code, message, reason, remedy) {
    super(message);
    this.body = { code, message, data: { reason, remedy } };
  }
}

export class Members {
  #accounts = new Map();
  #orders = new Map();
  #next = 1000;
  #trades = 90000;
  killed = false;

  constructor(venue) {
    this.venue = venue;
    for (const name of ['demo-a', 'demo-b']) this.open(name, `${name}-secret`, true);
    this.open('demo-operator', 'demo-operator-secret', false).operator = true;
  }

  open(name, secret, endowed) {
    if (this.#accounts.has(name))
      throw new Refusal(-32602, 'bad_definition', `${name} exists`, 'Choose another name.');
    const account = { name, secret, number: this.#accounts.size, killed: false, closed: false, limits: {} };
    account.fills = [];
    account.balances = new Map(
      endowed ? this.venue.currencies().map((currency) => [currency, currency === 'ZAR' ? 1e7 : 1e4]) : [],
    );
    this.#accounts.set(name, account);
    return account;
  }

  all() {
    return [...this.#accounts.values()];
  }

  find(name) {
    const account = this.#accounts.get(name);
    if (!account)
      throw new Refusal(10001, 'unknown_account', `no account ${name}`, 'See the list of accounts.');
    return account;
  }

  ordersOf(account, test = () => true) {
    return [...this.#orders.values()].filter((order) => order.owner === account && test(order)).map(shown);
  }

  openOf(account) {
    return this.ordersOf(account, (order) => order.order_state === 'open');
  }

  cancelWhere(test, reason) {
    const hit = [...this.#orders.values()].filter((order) => order.order_state === 'open' && test(order));
    for (const order of hit) this.#move(order, { order_state: 'cancelled', cancel_reason: reason });
    return hit.length;
  }

  get methods() {
    const me = (peer) => {
      if (!peer.account)
        throw new Refusal(
          13009,
          'unauthorized',
          'this connection is not logged in',
          'Call public/auth first.',
        );
      return peer.account;
    };
    return {
      'public/auth': (params, peer) => this.#enter(params, peer),
      'public/get_time': () => Date.now(),
      'public/get_currencies': () => this.venue.currencies().map((currency) => ({ currency, decimals: 2 })),
      'private/get_open_orders': (_, peer) => this.openOf(me(peer)),
      'private/get_order_history_by_currency': (_, peer) =>
        this.ordersOf(me(peer), (order) => order.order_state !== 'open'),
      'private/get_user_trades_by_currency': (_, peer) => ({ trades: me(peer).fills, has_more: false }),
      'private/get_account_summaries': (_, peer) => ({ summaries: this.#summaries(me(peer)) }),
      'private/get_positions': () => [],
      'private/buy': (params, peer) => this.#place('buy', params, me(peer)),
      'private/sell': (params, peer) => this.#place('sell', params, me(peer)),
      'private/edit': ({ order_id, amount, price }, peer) => ({
        order: this.#move(this.#mine(order_id, me(peer)), { amount, price, replaced: true }),
        trades: [],
      }),
      'private/cancel': ({ order_id }, peer) =>
        this.#move(this.#mine(order_id, me(peer)), {
          order_state: 'cancelled',
          cancel_reason: 'user_request',
        }),
      'private/cancel_all': (_, peer) =>
        this.cancelWhere((order) => order.owner === me(peer), 'user_request'),
    };
  }

  #enter({ grant_type, client_id, client_secret, refresh_token }, peer) {
    const account = this.#accounts.get(grant_type === 'refresh_token' ? refresh_token : client_id);
    if (!account || account.closed || (grant_type !== 'refresh_token' && account.secret !== client_secret)) {
      throw new Refusal(
        13004,
        'invalid_credentials',
        'unknown client id, or wrong secret',
        'Check the credentials.',
      );
    }
    peer.account = account;
    const scope = `trade:read_write${account.operator ? ' operator:read_write' : ''}`;
    return { access_token: account.name, refresh_token: account.name, expires_in: 900, scope };
  }

  #mine(id, account) {
    const order = this.#orders.get(id);
    if (order?.owner !== account || order.order_state !== 'open')
      throw new Refusal(
        10004,
        'order_not_found',
        `no open order ${id}`,
        'It may have been filled or cancelled.',
      );
    return order;
  }

  #place(direction, params, account) {
    const market = this.venue.find(params.instrument_name);
    if (this.killed || account.killed)
      throw new Refusal(10066, 'killed', 'The kill switch is on.', 'Wait until the operator lifts it.');
    if (market.halted)
      throw new Refusal(
        11090,
        'instrument_halted',
        `${market.name} is halted`,
        'Wait until it is resumed; cancel if you like.',
      );
    const touch = direction === 'buy' ? Math.min(...market.asks.keys()) : Math.max(...market.bids.keys());
    const sign = direction === 'buy' ? 1 : -1;
    const fills = params.type === 'market' || (params.price - touch) * sign >= 0;
    const now = Date.now();
    const order = {
      ...{ order_id: String(++this.#next), order_state: 'open', order_type: params.type, direction },
      ...{
        instrument_name: market.name,
        price: params.price ?? touch,
        amount: params.amount,
        filled_amount: 0,
      },
      ...{ average_price: 0, time_in_force: params.time_in_force ?? 'good_til_day', creation_timestamp: now },
      ...{ last_update_timestamp: now, post_only: params.post_only ?? false, owner: account },
      display_amount: params.display_amount ?? params.amount,
    };
    this.#orders.set(order.order_id, order);
    const trades = fills ? [this.#fill(order, touch, market, sign)] : [];
    return { order: this.#move(order, {}), trades };
  }

  #fill(order, price, market, sign) {
    const { owner, amount } = order;
    Object.assign(order, { order_state: 'filled', filled_amount: amount, average_price: price });
    const add = (currency, value) =>
      owner.balances.set(currency, (owner.balances.get(currency) ?? 0) + value);
    const [base, quote] = market.name.split(/[_-]/);
    add(base, sign * amount);
    add(quote, -sign * amount * price);
    const fill = {
      ...{
        trade_id: String(++this.#trades),
        trade_seq: this.#trades,
        order_id: order.order_id,
        price,
        amount,
      },
      ...{ instrument_name: market.name, direction: order.direction, fee: 0, fee_currency: base },
      ...{ timestamp: Date.now(), liquidity: 'T' },
    };
    owner.fills.unshift(fill);
    this.venue.tell(owner, 'user.trades.any.any.raw', [fill]);
    return fill;
  }

  #move(order, changes) {
    Object.assign(order, changes, { last_update_timestamp: Date.now() });
    this.venue.tell(order.owner, 'user.orders.any.any.raw', shown(order));
    return shown(order);
  }

  #summaries(account) {
    return [...account.balances].map(([currency, balance]) => ({
      ...{ currency, balance, equity: balance, available_funds: balance },
      ...{ initial_margin: 0, maintenance_margin: 0, spot_reserve: 0 },
    }));
  }
}

function shown({ owner: _owner, ...order }) {
  return order;
}
