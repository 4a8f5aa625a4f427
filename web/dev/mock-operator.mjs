// The operator's commands of the stand-in.
import { randomBytes } from 'node:crypto';
import { Refusal } from './mock-members.mjs';

/** `venue` adds and removes markets. */
export function operatorMethods(members, venue) {
  const flow = { running: true, rate_percent: 100 };
  venue.flow = flow;
  const methods = {
    status: () => ({
      ...{ epoch: 1, durability: 'memory', venue_time: Date.now(), sequence: 1234, live_orders: 880 },
      ...{ flow, venue_killed: members.killed, tape_hash: '9f0c5e2ab1d34c77' },
    }),
    halt: ({ instrument_name }) => ok(venue.begin(instrument_name, 'halt')),
    pause: ({ instrument_name }) => ok(venue.begin(instrument_name, 'pause')),
    reopen: ({ instrument_name, seconds }) => ok(venue.begin(instrument_name, 'reopening_auction', seconds)),
    extend: ({ instrument_name, seconds }) => ok(venue.extend(instrument_name, seconds)),
    resume: ({ instrument_name }) => ok(venue.begin(instrument_name, 'continuous')),
    create_instrument: (params) => venue.list(params),
    change_instrument: ({ instrument_name, ...limits }) =>
      Object.assign(venue.find(instrument_name).limits, limits),
    delete_instrument: ({ instrument_name }) => ok(venue.drop(instrument_name)),
    get_accounts: () =>
      members.all().map((account) => ({
        ...{ account: account.number, name: account.name, credit: 'limited', killed: account.killed },
        ...{ closed: account.closed, open_orders: members.openOf(account).length, limits: account.limits },
      })),
    create_account: ({ name }) => {
      const account = members.open(name, randomBytes(12).toString('hex'), false);
      return { account: account.number, name, client_id: name, client_secret: account.secret };
    },
    create_credential: ({ name }) => {
      const account = members.find(name);
      account.secret = randomBytes(12).toString('hex');
      return { account: account.number, name, client_id: name, client_secret: account.secret };
    },
    get_orders: ({ name }) =>
      members
        .all()
        .filter((account) => name === undefined || account.name === name)
        .flatMap((account) =>
          members.openOf(account).map((order) => ({ ...order, name: account.name, session: 7 })),
        ),
    set_credit_line: () => 'ok',
    change_account: ({ name, ...limits }) => ok(Object.assign(members.find(name).limits, limits)),
    delete_account: ({ name }) => {
      const account = members.find(name);
      members.cancelWhere((order) => order.owner === account, 'account_closed');
      return ok((account.closed = true));
    },
    deposit: ({ name, currency, amount }) => {
      const { balances } = members.find(name);
      return ok(balances.set(currency, (balances.get(currency) ?? 0) + amount));
    },
    flow: ({ action, rate_percent }) => {
      if (action !== 'status') flow.running = action === 'start';
      if (rate_percent !== undefined) flow.rate_percent = rate_percent;
      return flow;
    },
    kill: ({ scope, name, order_id, reason }) => {
      if (!reason) throw new Refusal(-32602, 'invalid_params', 'a reason is missing', 'Say why.');
      if (scope === 'venue') members.killed = true;
      const account = scope === 'account' ? members.find(name) : null;
      if (account) account.killed = true;
      const hit = (order) => scope === 'venue' || order.owner === account || order.order_id === order_id;
      return { cancelled: members.cancelWhere(hit, 'risk_mitigation') };
    },
    lift: ({ scope, name }) =>
      ok(scope === 'venue' ? (members.killed = false) : (members.find(name).killed = false)),
    bust: ({ trade_id }) => {
      throw new Refusal(
        10021,
        'unknown_trade',
        `no trade ${trade_id}`,
        'Use the id of a trade of this venue.',
      );
    },
  };
  return Object.fromEntries(
    Object.entries(methods).map(([name, run]) => [
      `private/pitwire_${name}`,
      (params, peer) => {
        if (!peer.account?.operator)
          throw new Refusal(13021, 'forbidden', 'this takes the operator scope', 'Log in as an operator.');
        return run(params);
      },
    ]),
  );
}

function ok(_done) {
  return 'ok';
}
