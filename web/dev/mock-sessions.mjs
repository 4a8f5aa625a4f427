// Sessions and calls of the stand-in: AUC_ZAR holds one every three minutes, the others when an
// operator says so.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const RULES = join(import.meta.dirname, '../../contracts/rules');
const CYCLE = 180_000;
const CALL = Number(process.env.MOCK_CALL ?? 30_000);

/** The part of TOML that the two tables are written in: lists of inline tables, one to a line. */
function table(file) {
  const lists = {};
  let list = null;
  for (const line of readFileSync(join(RULES, file), 'utf8').split('\n')) {
    const opens = /^(\w+) = \[$/.exec(line);
    if (opens) lists[(list = opens[1])] = [];
    const row = /^\s*\{ (.*) \},$/.exec(line);
    if (row) lists[list].push(JSON.parse(`{${row[1].replace(/(?<=^|,\s*)(\w+) =/g, '"$1":')}}`));
  }
  return lists;
}

export function rules() {
  const [types, sessions] = [table('order-types.toml'), table('sessions.toml')];
  const cells = (name, kind) =>
    Object.fromEntries(
      sessions.cell
        .filter((cell) => cell.session === name && cell.kind === kind)
        .map((cell) => [cell.column, cell.answer]),
    );
  return {
    order_types: types.cell.map(({ tif, ...cell }) => ({ ...cell, time_in_force: tif })),
    sessions: sessions.session.map(({ name, ...row }) => ({
      ...row,
      session: name,
      time_in_force: cells(name, 'tif'),
      order_types: cells(name, 'type'),
    })),
    rules: [...types.rule, ...sessions.rule],
  };
}

/** The session that runs, moved on when its time has come; `tell` is called with each. */
export function turn(m, tell) {
  const now = Date.now();
  m.session ??= { session: 'continuous', previous_session: 'closed', reason: 'operator', begins: now };
  if (m.name === 'AUC_ZAR' && m.session.reason === 'scheduled' && m.session.session === 'continuous')
    m.session.ends ??= Math.ceil(now / CYCLE) * CYCLE;
  if (m.name === 'AUC_ZAR' && m.session.reason === 'operator' && !m.ordered)
    begin(m, 'intraday_auction', 'scheduled', now + CALL, tell);
  if (m.session.ends === undefined || now < m.session.ends) return;
  const next = m.session.session === 'continuous' ? 'intraday_auction' : 'continuous';
  begin(m, next, 'scheduled', next === 'continuous' ? undefined : now + CALL, tell);
}

export function begin(m, session, reason, ends, tell) {
  const timestamp = Date.now();
  const before = m.session?.session ?? 'closed';
  if (inCall(m) && !session.endsWith('_auction') && !/^(halt|pause)/.test(session)) {
    const shown = indicative(m);
    if (shown.indicative_price)
      m.uncross = {
        ...{ session: before, price: shown.indicative_price, volume: shown.indicative_volume },
        timestamp,
      };
  }
  m.halted = session === 'halt';
  m.ordered = reason === 'operator';
  const previous = session === before ? m.session.previous_session : before;
  m.session = { session, previous_session: previous, reason, begins: timestamp, ...(ends && { ends }) };
  tell(m);
}

export const inCall = (m) => m.session?.session.endsWith('_auction') ?? false;

export function sessionMessage(m) {
  const permits = rules().sessions.find((row) => row.session === m.session.session);
  return {
    ...{ timestamp: Date.now(), instrument_name: m.name, state: m.halted ? 'halted' : 'open', ...m.session },
    ...{ enter: permits.enter, amend: permits.amend, cancel: permits.cancel, match: permits.match },
  };
}

/** The price with the greatest volume, then the smallest surplus, then the highest. */
function indicative(m) {
  const prices = [...new Set([...m.bids.keys(), ...m.asks.keys()])].sort((a, b) => b - a);
  const sum = (side, accepts) =>
    [...side].reduce((total, [price, amount]) => total + (accepts(price) ? amount : 0), 0);
  let best = null;
  for (const at of prices) {
    const [buy, sell] = [sum(m.bids, (price) => price >= at), sum(m.asks, (price) => price <= at)];
    const [volume, surplus] = [Math.min(buy, sell), buy - sell];
    const better =
      !best || volume > best.volume || (volume === best.volume && Math.abs(surplus) < Math.abs(best.surplus));
    if (volume > 0 && better) best = { at, volume, surplus };
  }
  if (!best) return { indicative_volume: 0, imbalance: 0, imbalance_side: 'none' };
  return {
    ...{ indicative_price: best.at, indicative_volume: best.volume, imbalance: best.surplus },
    imbalance_side: best.surplus === 0 ? 'none' : best.surplus > 0 ? 'buy' : 'sell',
  };
}

export function auctionMessage(m) {
  return {
    ...{ timestamp: Date.now(), instrument_name: m.name, session: m.session.session },
    ...(inCall(m) ? { type: 'indicative', ...indicative(m) } : { type: 'result' }),
    ...(m.session.ends && { session_ends: m.session.ends }),
    ...(m.uncross && { uncross: m.uncross }),
  };
}
