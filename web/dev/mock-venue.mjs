// A stand-in for the venue, for working on the page alone: random markets over the subset of the
// dialect the page uses. It takes the flags of `pitwire up` that the end-to-end test passes, and
// serves dist under a strict policy.
//   npm run build && npm run mock          then open http://127.0.0.1:8700
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { parseArgs } from 'node:util';
import { WebSocketServer } from 'ws';
import { Members, Refusal } from './mock-members.mjs';
import { operatorMethods } from './mock-operator.mjs';
import { auctionMessage, begin, inCall, rules, sessionMessage, turn } from './mock-sessions.mjs';

const { values: flags } = parseArgs({
  allowPositionals: true,
  strict: false,
  options: {
    http: { type: 'string', default: '127.0.0.1:8700' },
    'ready-file': { type: 'string' },
    // Breaks the chain of one book in this many messages, to see the page recover.
    'gap-every': { type: 'string', default: '0' },
    // Starts without history, as a venue does in its first minute.
    young: { type: 'boolean' },
  },
});

const round = (value, step) => Number((Math.round(value / step) * step).toFixed(8));
const pick = (size, lot) => Math.max(lot, round(size * -Math.log(1 - Math.random()), lot));

const MARKETS = [
  ['NPN_ZAR', 0.01, 1, 3250, 40],
  ['SBK_ZAR', 0.01, 1, 215, 300],
  ['AGL_ZAR', 0.01, 1, 510, 120],
  ['BHG_ZAR', 0.01, 1, 480, 150],
  ['SOL_ZAR', 0.01, 1, 118, 400],
  ['MTN_ZAR', 0.01, 1, 96, 500],
  ['FSR_ZAR', 0.01, 1, 72, 700],
  ['BTC_USDC', 0.5, 0.0001, 60000, 0.6],
  ['ETH_USDC', 0.05, 0.001, 3000, 8],
  ['BTC-PERPETUAL', 0.5, 10, 60000, 20000],
  ['AUC_ZAR', 0.01, 1, 100, 300],
].map(([name, tick, lot, start, size]) => market(name, tick, lot, start, size));

function market(name, tick, lot, start, size) {
  const m = {
    halted: false,
    limits: {},
    name,
    tick,
    lot,
    size,
    mid: start,
    start,
    changeId: 1000,
    seq: 0,
    trades: [],
    candles: [],
  };
  Object.assign(m, {
    bids: new Map(),
    asks: new Map(),
    high: start,
    low: start,
    volume: 0,
    last: start,
    subscribers: new Set(),
  });
  const minute = Math.floor(Date.now() / 60000) * 60000;
  const span = flags.young ? 0 : 300;
  let price = start * (1 + (Math.random() - 0.5) * 0.01);
  for (let i = span; i > 0; i--) {
    const open = price;
    price = round(
      price + (start - price) * 0.004 + start * 0.0007 * (Math.random() + Math.random() - 1),
      tick,
    );
    const wick = () => Math.random() * start * 0.0003;
    const high = round(Math.max(open, price) + wick(), tick);
    const low = round(Math.min(open, price) - wick(), tick);
    m.candles.push({
      tick: minute - i * 60000,
      open,
      high,
      low,
      close: price,
      volume: round(size * (10 + 60 * Math.random() ** 3), lot),
    });
  }
  m.mid = price;
  m.last = round(price, tick);
  m.high = Math.max(m.last, ...m.candles.map((c) => c.high));
  m.low = Math.min(m.last, ...m.candles.map((c) => c.low));
  m.volume = m.candles.reduce((sum, c) => sum + c.volume, 0) || 0;
  refill(m);
  if (!flags.young) for (let i = 120; i > 0; i--) trade(m, Date.now() - i * 700);
  return m;
}

function refill(m) {
  const centre = Math.round(m.mid / m.tick);
  const gap = inCall(m) ? -4 : 1;
  const spacing = m.mid / m.tick > 50000 ? 6 : 1;
  for (const [side, sign] of [
    [m.bids, -1],
    [m.asks, 1],
  ]) {
    const touch = centre + sign * gap;
    for (const price of side.keys()) if ((Math.round(price / m.tick) - touch) * sign < 0) side.delete(price);
    for (let k = 0; side.size < 40 && k < 60; k++) {
      const price = round((touch + sign * k * spacing) * m.tick, m.tick);
      if (!side.has(price) && Math.random() < 0.8) side.set(price, pick(m.size * (0.4 + k / 12), m.lot));
    }
  }
}

function trade(m, timestamp) {
  const buy = Math.random() < 0.5;
  const price = round(m.mid + (buy ? m.tick : -m.tick), m.tick);
  const amount = pick(m.size * 0.5, m.lot);
  const t = {
    trade_id: String(5000 + ++m.seq),
    trade_seq: m.seq,
    instrument_name: m.name,
    timestamp,
    price,
    amount,
  };
  Object.assign(t, {
    direction: buy ? 'buy' : 'sell',
    tick_direction: price >= m.last ? 0 : 2,
    index_price: m.mid,
    mark_price: m.mid,
  });
  m.trades.push(t);
  if (m.trades.length > 1000) m.trades.shift();
  m.last = price;
  m.high = Math.max(m.high, price);
  m.low = Math.min(m.low, price);
  m.volume = round(m.volume + amount, m.lot);
  const bucket = Math.floor(timestamp / 60000) * 60000;
  let c = m.candles.at(-1);
  if (!c || c.tick < bucket)
    m.candles.push((c = { tick: bucket, open: price, high: price, low: price, close: price, volume: 0 }));
  c.high = Math.max(c.high, price);
  c.low = Math.min(c.low, price);
  c.close = price;
  c.volume = round(c.volume + amount, m.lot);
  return t;
}

function ticker(m) {
  const bid = Math.max(...m.bids.keys());
  const ask = Math.min(...m.asks.keys());
  const call = inCall(m) ? auctionMessage(m) : null;
  return {
    instrument_name: m.name,
    timestamp: Date.now(),
    state: m.halted ? 'halted' : 'open',
    session: m.session?.session ?? 'continuous',
    ...(m.session?.ends && { session_ends: m.session.ends }),
    last_price: m.last,
    mark_price: m.last,
    index_price: m.start,
    open_interest: 0,
    best_bid_price: bid,
    best_bid_amount: m.bids.get(bid),
    best_ask_price: ask,
    best_ask_amount: m.asks.get(ask),
    ...(call && {
      ...{ indicative_price: call.indicative_price, indicative_volume: call.indicative_volume },
      imbalance: call.imbalance,
    }),
    stats: {
      high: m.high,
      low: m.low,
      price_change: round((m.last / m.start - 1) * 100, 0.0001),
      volume: m.volume,
      volume_usd: 0,
    },
  };
}

const edits = (side, sign) => [...side].sort((a, b) => (a[0] - b[0]) * sign);

function tellSession(m) {
  for (const peer of peers) {
    peer.publish(`session.${m.name}`, sessionMessage(m));
    peer.publish(`auction.${m.name}`, auctionMessage(m));
    peer.publish(`ticker.${m.name}.100ms`, ticker(m));
  }
}

function step(m) {
  turn(m, tellSession);
  if (m.halted || !venue.flow.running) {
    for (const peer of peers) peer.publish(`ticker.${m.name}.100ms`, ticker(m));
    return;
  }
  const call = inCall(m) || m.session.session === 'pause';
  const before = [new Map(m.bids), new Map(m.asks)];
  m.mid +=
    (m.start - m.mid) * 0.0005 + m.tick * (Math.random() - 0.5) * Math.max(2, m.start / m.tick / 30000);
  refill(m);
  for (const side of [m.bids, m.asks]) {
    for (const price of side.keys()) {
      const luck = Math.random();
      if (luck < 0.01) side.delete(price);
      else if (luck < 0.06) side.set(price, pick(m.size, m.lot));
    }
  }
  const trades = [];
  while (!call && Math.random() < 0.28) trades.push(trade(m, Date.now()));
  const now = Date.now();
  const changes = [m.bids, m.asks].map((side, i) => [
    ...[...before[i].keys()].filter((p) => !side.has(p)).map((p) => ['delete', p, 0]),
    ...[...side]
      .filter(([p, a]) => before[i].get(p) !== a)
      .map(([p, a]) => [before[i].has(p) ? 'change' : 'new', p, a]),
  ]);
  const previous = m.changeId;
  m.changeId += 1 + Math.floor(Math.random() * 5);
  for (const peer of peers) {
    if (trades.length) peer.publish(`trades.${m.name}.100ms`, trades);
    const gap = Number(flags['gap-every']) > 0 && Math.random() < 1 / Number(flags['gap-every']) ? 1 : 0;
    const body = { timestamp: now, instrument_name: m.name, change_id: m.changeId };
    peer.publish(`book.${m.name}.100ms`, {
      type: 'change',
      ...body,
      prev_change_id: previous - gap,
      bids: changes[0],
      asks: changes[1],
    });
    if (trades.length || Math.random() < 0.3) peer.publish(`ticker.${m.name}.100ms`, ticker(m));
    if (inCall(m)) peer.publish(`auction.${m.name}`, auctionMessage(m));
  }
}

function find(name) {
  const found = MARKETS.find((m) => m.name === name);
  if (!found) throw new Refusal(10001, 'unknown_instrument', `no instrument ${name}`, 'See the list.');
  return found;
}

const peers = new Set();

const venue = {
  find,
  currencies: () => [...new Set(MARKETS.flatMap((m) => m.name.replace('PERPETUAL', 'USD').split(/[_-]/)))],
  tell: (account, channel, data) => {
    for (const peer of peers) if (peer.account === account) peer.publish(channel, data);
  },
  list: ({ instrument_name, tick_size, lot_size, start_price }) => {
    if (MARKETS.some((m) => m.name === instrument_name))
      throw new Refusal(-32602, 'bad_definition', `${instrument_name} exists`, 'Choose another name.');
    MARKETS.push(market(instrument_name, tick_size, lot_size, start_price, lot_size * 50));
    return METHODS['public/get_instruments']().at(-1);
  },
  begin: (name, session, seconds) =>
    begin(find(name), session, 'operator', seconds && Date.now() + seconds * 1000, tellSession),
  extend: (name, seconds) => {
    const m = find(name);
    begin(m, m.session.session, 'extended', Date.now() + seconds * 1000, tellSession);
  },
  drop: (name) => MARKETS.splice(MARKETS.indexOf(find(name)), 1),
};
const members = new Members(venue);

const METHODS = {
  ...members.methods,
  ...operatorMethods(members, venue),
  'public/test': () => ({ version: 'mock' }),
  'public/pitwire_get_rules': rules,
  'public/ticker': ({ instrument_name }) => ticker(find(instrument_name)),
  'public/pitwire_get_auction': ({ instrument_name }) => auctionMessage(find(instrument_name)),
  'public/get_instruments': () =>
    MARKETS.map((m, i) => {
      const [base, quote] = m.name === 'BTC-PERPETUAL' ? ['BTC', 'USD'] : m.name.split('_');
      const inverse = m.name === 'BTC-PERPETUAL';
      return {
        instrument_name: m.name,
        kind: inverse ? 'future' : 'spot',
        base_currency: base,
        quote_currency: quote,
        counter_currency: quote,
        instrument_type: inverse ? 'reversed' : 'linear',
        ...(inverse && { settlement_period: 'perpetual', settlement_currency: 'BTC' }),
        instrument_id: i + 1,
        is_active: true,
        state: m.halted ? 'halted' : 'open',
        ...m.limits,
        tick_size: m.tick,
        min_trade_amount: m.lot,
        contract_size: m.lot,
      };
    }),
  'public/get_last_trades_by_instrument': ({ instrument_name, count }) => ({
    trades: find(instrument_name).trades.slice(-count).reverse(),
    has_more: false,
  }),
  'public/get_tradingview_chart_data': ({ instrument_name, start_timestamp }) => {
    const rows = find(instrument_name).candles.filter((c) => c.tick >= start_timestamp);
    const column = (key) => rows.map((c) => c[key]);
    return {
      ticks: column('tick'),
      open: column('open'),
      high: column('high'),
      low: column('low'),
      close: column('close'),
      volume: column('volume'),
      cost: [],
      status: rows.length ? 'ok' : 'no_data',
    };
  },
  'public/subscribe': ({ channels }, peer) => {
    for (const channel of channels) {
      peer.channels.add(channel);
      const [kind, name] = channel.split('.');
      if (kind === 'user') continue;
      const m = find(name);
      turn(m, tellSession);
      if (kind === 'ticker') peer.after(channel, () => ticker(m));
      if (kind === 'session') peer.after(channel, () => sessionMessage(m));
      if (kind === 'auction') peer.after(channel, () => auctionMessage(m));
      if (kind !== 'book') continue;
      peer.after(channel, () => ({
        type: 'snapshot',
        timestamp: Date.now(),
        instrument_name: name,
        change_id: m.changeId,
        bids: edits(m.bids, -1).map(([p, a]) => ['new', p, a]),
        asks: edits(m.asks, 1).map(([p, a]) => ['new', p, a]),
      }));
    }
    return channels;
  },
  'private/subscribe': (params, peer) => {
    const offered = params.channels.filter((channel) => !channel.startsWith('user.portfolio'));
    return METHODS['public/subscribe']({ channels: offered }, peer);
  },
  'public/unsubscribe': ({ channels }, peer) => {
    for (const channel of channels) peer.channels.delete(channel);
    return channels;
  },
};

function serve(socket) {
  const send = (body) => socket.readyState === 1 && socket.send(JSON.stringify({ jsonrpc: '2.0', ...body }));
  const later = [];
  const peer = {
    channels: new Set(),
    publish: (channel, data) =>
      peer.channels.has(channel) && send({ method: 'subscription', params: { channel, data } }),
    after: (channel, data) => later.push(() => peer.publish(channel, data())),
  };
  peers.add(peer);
  socket.on('close', () => peers.delete(peer));
  socket.on('message', (text) => {
    const { id, method, params } = JSON.parse(text);
    const handler = METHODS[method];
    if (!handler) return send({ id, error: { code: -32601, message: 'Method not found' } });
    try {
      send({ id, result: handler(params ?? {}, peer) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      send({ id, error: error.body });
    }
    for (const action of later.splice(0)) action();
  });
}

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const DIST = join(import.meta.dirname, '../dist');

const http = createServer(async (request, response) => {
  const path = new URL(request.url, 'http://x').pathname;
  const file = join(DIST, normalize(path === '/' ? '/index.html' : path));
  try {
    const body = await readFile(file);
    response.writeHead(200, {
      'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
      'content-security-policy': POLICY,
    });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});
new WebSocketServer({ server: http, path: '/ws/api/v2' }).on('connection', serve);

const [host, port] = flags.http.split(':');
http.listen(Number(port), host, async () => {
  setInterval(() => MARKETS.forEach(step), 100);
  const address = `${host}:${http.address().port}`;
  console.log(`mock venue on http://${address}`);
  const ready = flags['ready-file'];
  if (!ready) return;
  await writeFile(`${ready}.tmp`, JSON.stringify({ http: address, pid: process.pid }));
  await rename(`${ready}.tmp`, ready);
});
