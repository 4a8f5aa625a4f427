// A member at work in a real browser: every number the page shows is held against the API's.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Api, Venue, number, openBrowser, picture, until } from './venue.mjs';

const NAME = 'NPN_ZAR';
const FAR_BELOW = 3000;

let venue;
let browser;
let page;
let api;
const sent = [];

before(async () => {
  venue = await Venue.create();
  browser = await openBrowser(venue);
  page = await browser.newPage();
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => sent.push(JSON.parse(String(payload)))),
  );
  await page.goto(`${venue.url}/#${NAME}`);
  await page.waitForSelector('[data-phase="live"]');
  api = await Api.open(venue, 'demo-a');
});

after(async () => {
  api?.close();
  await browser?.context.close();
  await venue?.end();
});

const ticket = () => page.getByRole('form', { name: 'Order ticket' });
const field = (name) => ticket().getByRole('textbox', { name: new RegExp(`^${name}`) });
const orderRows = () => page.locator('[data-order]');
const tab = (name) => page.getByRole('tab', { name });
const answer = () => ticket().locator('[data-good]');
const orders = () => api.call('private/get_open_orders', {});
const summary = async (currency) =>
  (await api.call('private/get_account_summaries', {})).summaries.find((held) => held.currency === currency);

async function fill({ side = 'Buy', type = 'Limit', price, amount, terms = 'GTC' }) {
  await ticket().getByText(side, { exact: true }).click();
  await ticket().getByText(type, { exact: true }).click();
  if (price !== undefined) await field('Price').fill(String(price));
  await field('Amount').fill(String(amount));
  if (type === 'Limit') await ticket().getByLabel('Time in force').selectOption({ label: terms });
}

const send = () => ticket().locator('button[type="submit"]').click();

async function place(what) {
  await fill(what);
  const before = (await orders()).length;
  await send();
  await page.waitForSelector('form [data-good="true"]');
  return before;
}

async function openNumbers() {
  const ids = await orderRows().evaluateAll((rows) => rows.map((row) => row.dataset.order));
  return ids.sort();
}

test('a wrong secret is refused with the reason and the remedy on screen', async () => {
  await page.getByLabel('Client id').fill('demo-a');
  await page.getByLabel('Client secret').fill('not the secret');
  await page.getByRole('button', { name: 'Log in' }).click();
  const stranger = await Api.open(venue);
  const grant = { grant_type: 'client_credentials', client_id: 'demo-a', client_secret: 'not the secret' };
  const error = await stranger.call('public/auth', grant).catch((refusal) => refusal);
  stranger.close();
  const shown = await page.locator('[data-good="false"]').textContent();
  for (const words of [String(error.code), error.data.reason, error.data.remedy])
    assert.ok(shown.includes(words), `${words} in ${shown}`);
});

test('typing the name of a demo account is enough to log in', async () => {
  await page.getByLabel('Client id').fill('demo-a');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForSelector('[data-account="demo-a"]');
  await ticket().waitFor();
  assert.equal(await page.getByRole('tab', { name: 'Operator' }).count(), 0);
});

test('balances are those of the API', async () => {
  await tab('Balances').click();
  await page.waitForSelector('[data-currency="ZAR"]');
  await until(async () => {
    const { summaries } = await api.call('private/get_account_summaries', {});
    const shown = await page.$$eval('[data-currency]', (rows) =>
      rows.map((row) => [row.dataset.currency, row.querySelector('[data-of="balance"]').textContent]),
    );
    const told = summaries.filter((held) => held.equity !== 0).map((held) => [held.currency, held.balance]);
    return JSON.stringify(shown.map(([name, text]) => [name, number(text)])) === JSON.stringify(told);
  }, 'the same balances');
  await tab('Open orders').click();
});

test('cumulative depth: each total is the sum of the API book up to it, for the same change_id', async () => {
  const channel = `book.${NAME}.100ms`;
  await api.call('public/subscribe', { channels: [channel] });
  const books = new Map();
  const sides = { bids: new Map(), asks: new Map() };
  const keep = () => {
    for (const { data } of api.notices.splice(0)) {
      for (const side of ['bids', 'asks']) {
        if (data.type === 'snapshot') sides[side].clear();
        for (const [action, price, amount] of data[side])
          if (action === 'delete') sides[side].delete(price);
          else sides[side].set(price, amount);
      }
      const sorted = (side, order) => [...sides[side]].sort((a, b) => (a[0] - b[0]) * order);
      books.set(data.change_id, { bid: sorted('bids', -1), ask: sorted('asks', 1) });
    }
  };
  let compared = 0;
  await until(async () => {
    const shown = await page.evaluate(readLadder);
    keep();
    const book = books.get(shown.changeId);
    if (!book) return false;
    for (const side of ['bid', 'ask']) {
      const rungs = shown.rungs.filter((rung) => rung.side === side);
      if (side === 'ask') rungs.reverse();
      assert.ok(rungs.length >= 7, `${rungs.length} levels`);
      let total = 0;
      for (const [i, rung] of rungs.entries()) {
        const [price, amount] = book[side][i];
        total += amount;
        assert.deepEqual(
          [number(rung.price), number(rung.size), number(rung.total)],
          [price, amount, total],
          `${side} ${i} of ${shown.changeId}`,
        );
      }
    }
    return ++compared >= 5;
  }, 'five books with change ids that both have seen');
  await api.call('public/unsubscribe', { channels: [channel] });
});

function readLadder() {
  const rungs = [...document.querySelectorAll('[data-side][data-price]')].map((rung) => {
    const [price, size, total] = [...rung.querySelectorAll('[role="cell"]')].map((cell) => cell.textContent);
    return { side: rung.dataset.side, price: price.replace('own order', ''), size, total };
  });
  const changeId = Number(document.querySelector('[data-meter="sequence"]').textContent.replace(/\D/g, ''));
  return { rungs, changeId };
}

test('the depth chart draws both sides', async () => {
  await tab('Depth').click();
  const svg = page.getByRole('img', { name: `Cumulative depth of ${NAME}` });
  await svg.waitFor();
  for (const side of ['bid', 'ask'])
    assert.match(await svg.locator(`path.${side}`).getAttribute('d'), /^M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+/);
  const box = await svg.boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + box.height / 2);
  await page.waitForSelector('text=/to [\\d,.]+/');
  await picture(page, 'depth');
  await tab('Price').click();
});

test('sequence, message rate and lag are shown', async () => {
  const meter = (name) => page.locator(`[data-meter="${name}"]`).textContent();
  const sequence = async () => Number((await meter('sequence')).replace(/\D/g, ''));
  const first = await sequence();
  await until(async () => (await sequence()) > first, 'a later change id');
  await until(async () => Number.parseInt(await meter('rate'), 10) > 0, 'messages a second');
  await until(async () => /\d ms/.test(await meter('lag')), 'a lag');
  const lag = Number((await meter('lag')).replace(/[^\d.−-]/g, '').replace('−', '-'));
  assert.ok(Math.abs(lag) < 5000, `a lag of ${lag} ms on one machine`);
});

test('a limit order placed with the ticket stands among own orders, and at the venue', async () => {
  await place({ price: FAR_BELOW, amount: 7 });
  await orderRows().first().waitFor();
  const [order] = await orders();
  assert.deepEqual(
    [order.price, order.amount, order.direction, order.instrument_name],
    [FAR_BELOW, 7, 'buy', NAME],
  );
  const row = await page.locator(`[data-order="${order.order_id}"]`).textContent();
  for (const words of [NAME, 'buy', '3,000.00', 'open', 'limit GTC'])
    assert.ok(row.includes(words), `${words} in ${row}`);
});

test('editing changes price and amount under the same id', async () => {
  const [{ order_id: id }] = await orders();
  await page.getByRole('button', { name: `Edit order ${id}` }).click();
  await page.getByLabel('New price').fill('3001.50');
  await page.getByLabel('New amount').fill('9');
  await page.getByLabel('New amount').press('Enter');
  await page.locator(`[data-order="${id}"]`, { hasText: '3,001.50' }).waitFor();
  const [order] = await orders();
  assert.deepEqual([order.order_id, order.price, order.amount], [id, 3001.5, 9]);
});

test('cancelling takes the order out of the book and into the history', async () => {
  const [{ order_id: id }] = await orders();
  await page.getByRole('button', { name: `Cancel order ${id}` }).click();
  await page.locator(`[data-order="${id}"]`).waitFor({ state: 'detached' });
  assert.deepEqual(await orders(), []);
  await tab('Order history').click();
  const row = page.locator(`[data-closed="${id}"]`);
  await row.waitFor();
  assert.match(await row.textContent(), /cancelled/);
});

test('a price of the book goes into the ticket', async () => {
  await ticket().getByText('Market', { exact: true }).click();
  const pressed = await page.evaluate(() => {
    const rung = document.querySelectorAll('[data-side="bid"][data-price]')[2];
    rung.querySelector('button').click();
    return rung.dataset.price;
  });
  const price = field('Price');
  await until(async () => Number(await price.inputValue()) === Number(pressed), `the price ${pressed}`);
  assert.ok(await price.isEnabled());
});

test('a fill is printed, and the balances move by what it says', async () => {
  const before = { NPN: await summary('NPN'), ZAR: await summary('ZAR') };
  await fill({ type: 'Market', amount: 3 });
  await send();
  await page.waitForSelector('form [data-good="true"]');
  await tab('Fills').click();
  await page.waitForSelector('[data-fill]');
  const { trades } = await api.call('private/get_user_trades_by_instrument', { instrument_name: NAME });
  assert.equal(
    trades.reduce((sum, trade) => sum + trade.amount, 0),
    3,
  );
  const shown = await page.$$eval('[data-fill]', (rows) => rows.map((row) => row.dataset.fill));
  assert.deepEqual(shown.toSorted(), trades.map((trade) => trade.trade_id).sort());
  await picture(page, 'fills');
  await tab('Balances').click();
  const paid = trades.reduce((sum, trade) => sum + trade.price * trade.amount, 0);
  const shownBalance = async (currency) =>
    number(await page.locator(`[data-currency="${currency}"] [data-of="balance"]`).textContent());
  await until(async () => (await shownBalance('NPN')) === before.NPN.balance + 3, 'three more NPN');
  await until(
    async () => Math.abs((await shownBalance('ZAR')) - (before.ZAR.balance - paid)) < 0.005,
    `${paid} ZAR less`,
  );
  await picture(page, 'balances');
});

test("a refused order says the venue's reason and remedy", async () => {
  await fill({ price: '3000.005', amount: 1 });
  assert.match(await ticket().textContent(), /not a multiple of the tick, 0.01/);
  await send();
  const bad = { instrument_name: NAME, amount: 1, type: 'limit', price: 3000.005 };
  const error = await api.call('private/buy', bad).catch((refusal) => refusal);
  await page.waitForSelector('form [data-good="false"]');
  const shown = await answer().textContent();
  for (const words of [String(error.code), error.data.reason, error.data.remedy])
    assert.ok(shown.includes(words), `${words} in ${shown}`);
  await picture(page, 'refused');
});

test('what cannot be an order is not sent', async () => {
  const before = sent.length;
  await fill({ price: '3000', amount: 'ten' });
  await send();
  assert.match(await answer().textContent(), /amount is missing/);
  assert.deepEqual(
    sent.slice(before).filter((request) => request.method === 'private/buy'),
    [],
  );
});

test('time in force, post-only and display amount go out as the dialect names them', async () => {
  await fill({ side: 'Sell', price: 4000, amount: 20, terms: 'DAY' });
  await ticket().getByLabel('Post-only').check();
  await ticket().getByLabel('refuse if it would cross').check();
  await field('Display').fill('5');
  await send();
  await page.waitForSelector('form [data-good]');
  const request = sent.findLast((frame) => frame.method === 'private/sell');
  assert.deepEqual(request.params, {
    instrument_name: NAME,
    amount: 20,
    type: 'limit',
    price: 4000,
    time_in_force: 'good_til_day',
    post_only: true,
    reject_post_only: true,
    display_amount: 5,
  });
  await ticket().getByLabel('refuse if it would cross').uncheck();
  await ticket().getByLabel('Post-only').uncheck();
  await field('Display').fill('');
});

test('an iceberg for the day, and a fill or kill that cannot be filled, end as the venue says', async () => {
  const terms = { post_only: true, display_amount: 5, time_in_force: 'good_til_day' };
  const like = { instrument_name: NAME, amount: 20, type: 'limit', price: 4001, ...terms };
  const asked = await api.call('private/sell', like);
  assert.ok(asked.order, JSON.stringify(asked));
  await tab('Open orders').click();
  const row = page.locator(`[data-order="${asked.order.order_id}"]`);
  await row.waitFor();
  assert.match(await row.textContent(), /limit DAY post-only shows 5/);
  await fill({ side: 'Buy', price: FAR_BELOW, amount: 5, terms: 'FOK' });
  await send();
  await page.waitForSelector('form [data-good]');
  await tab('Order history').click();
  await page.locator('[data-closed]', { hasText: 'limit FOK' }).first().waitFor();
  await api.call('private/cancel', { order_id: asked.order.order_id });
  await fill({ side: 'Buy', price: FAR_BELOW, amount: 5, terms: 'GTC' });
});

test('keys alone: B, the amount, the price by arrows, Enter', async () => {
  await tab('Open orders').click();
  await page.locator('body').click({ position: { x: 5, y: 700 } });
  await page.keyboard.press('s');
  await page.keyboard.type('2');
  await page.keyboard.press('ArrowUp');
  const price = field('Price');
  await price.fill('3999.99');
  await price.press('ArrowDown');
  await price.press('ArrowUp');
  await price.press('ArrowUp');
  await price.press('Enter');
  await until(async () => (await orders()).some((order) => order.price === 4000 && order.amount === 3), 'it');
  assert.equal(new URL(page.url()).hash, `#${NAME}`, 'arrows in a field do not turn to another market');
});

test('cancel all asks first', async () => {
  for (const price of [2990, 2991]) await place({ price, amount: 1 });
  const open = (await orders()).map((order) => order.order_id).sort();
  assert.ok(open.length >= 3);
  await until(async () => JSON.stringify(await openNumbers()) === JSON.stringify(open), 'all of them');
  await picture(page, 'orders');
  await page.getByRole('button', { name: 'Cancel all' }).click();
  await picture(page, 'confirm');
  await page.getByRole('button', { name: 'No, leave it' }).click();
  assert.equal((await orders()).length, open.length);
  await page.getByRole('button', { name: 'Cancel all' }).click();
  await page.getByRole('button', { name: 'Cancel them' }).click();
  await until(async () => (await orders()).length === 0, 'an empty book');
  await orderRows().first().waitFor({ state: 'detached' });
});

test('a perpetual is held as a position, which can be closed', async () => {
  await page.goto(`${venue.url}/#BTC-PERPETUAL`);
  await page.waitForSelector('[data-side="ask"][data-price]');
  await fill({ type: 'Market', amount: 50 });
  await send();
  await page.waitForSelector('form [data-good="true"]');
  await tab('Positions').click();
  const row = page.locator('[data-position="BTC-PERPETUAL"]');
  await row.waitFor();
  const position = await api.call('private/get_position', { instrument_name: 'BTC-PERPETUAL' });
  assert.equal(position.size, 50);
  assert.match(await row.textContent(), /long\s*50/);
  await picture(page, 'position');
  await page.getByRole('button', { name: 'Close the position' }).click();
  await page.getByRole('button', { name: 'Close it' }).click();
  await row.waitFor({ state: 'detached' });
});

test('after a kill -9 of the venue the member is logged in again, with the orders that rest there', async () => {
  await page.goto(`${venue.url}/#${NAME}`);
  await page.waitForSelector('[data-side="ask"][data-price]');
  await tab('Open orders').click();
  await place({ price: FAR_BELOW, amount: 4 });
  const [{ order_id: id }] = await orders();
  await page.waitForSelector(`[data-order="${id}"]`);
  api.close();
  await venue.kill();
  await page.waitForSelector('[data-phase="reconnecting"]');
  assert.ok(await ticket().locator('button[type="submit"]').isDisabled());
  await venue.start();
  api = await Api.open(venue, 'demo-a');
  await page.waitForSelector('[data-phase="live"]');
  await page.waitForSelector(`[data-order="${id}"]`);
  await page.getByRole('button', { name: `Cancel order ${id}` }).click();
  await page.locator(`[data-order="${id}"]`).waitFor({ state: 'detached' });
});

test('a narrow screen has it all, and nothing sticks out', async () => {
  for (const [width, height] of [
    [390, 844],
    [820, 1180],
  ]) {
    await page.setViewportSize({ width, height });
    await ticket().scrollIntoViewIfNeeded();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px of content on ${width} px`);
    const box = await ticket().locator('button[type="submit"]').boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= width);
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/narrow-${width}.png`, fullPage: true });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('logging out leaves nothing of the account on screen', async () => {
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('Log in to trade').waitFor();
  for (const left of ['[data-order]', '[data-fill]', '[data-currency]', '[data-account]'])
    assert.equal(await page.locator(left).count(), 0);
});

test('nothing complained', () => {
  const expected = /WebSocket connection to .* failed|ERR_CONNECTION_REFUSED/;
  assert.deepEqual(
    browser.complaints.filter((text) => !expected.test(text)),
    [],
  );
});
