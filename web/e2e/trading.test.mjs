// A member trades in a real browser. Every number of the page is compared with the API.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withVenue } from './stage.mjs';
import { Api, number, picture, until } from './venue.mjs';

const NAME = 'NPN_ZAR';
const FAR_BELOW = 3000;

let venue, browser, page, api;
const sent = [];

withVenue(async (stage) => {
  ({ venue, browser } = stage);
  page = await browser.newPage();
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => sent.push(JSON.parse(String(payload)))),
  );
  await page.goto(`${venue.url}/#${NAME}`);
  await page.waitForSelector('[data-phase="live"]');
  api = stage.api = await Api.open(venue, 'demo-a');
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
    const nonzero = summaries
      .filter((held) => held.equity !== 0)
      .map((held) => [held.currency, held.balance]);
    return JSON.stringify(shown.map(([name, text]) => [name, number(text)])) === JSON.stringify(nonzero);
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
  const button = ticket().locator('button[type="submit"]');
  const why = ticket().locator('[data-of="blocked"]');
  for (const [amount, words] of [
    ['ten', 'The amount is not a number.'],
    ['', 'Enter an amount.'],
    ['0', 'The amount must be above zero.'],
    ['-3', 'The amount is not a number.'],
  ]) {
    await fill({ price: '3000', amount });
    assert.equal((await why.textContent()).trim(), words);
    assert.ok(await button.isDisabled(), `an amount of "${amount}"`);
    await field('Amount').press('Enter');
  }
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
  await page.locator('body').click({ position: { x: 5, y: 850 } });
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

test('a reload keeps the login, the history with cancelled orders, and the market', async () => {
  await tab('Order history').click();
  const closed = () => page.$$eval('[data-closed]', (rows) => rows.map((row) => row.dataset.closed).sort());
  const before = await closed();
  assert.ok(before.length > 3, `${before.length} closed orders`);
  await page.reload();
  await page.waitForSelector('[data-account="demo-a"]');
  await tab('Order history').click();
  await until(async () => JSON.stringify(await closed()) === JSON.stringify(before), 'the same history');
  assert.equal(new URL(page.url()).hash, `#${NAME}`);
});

test('a post-only order that the venue moves says where to', async () => {
  const { best_ask_price: ask } = await api.call('public/ticker', { instrument_name: NAME });
  await fill({ side: 'Buy', price: (ask + 5).toFixed(2), amount: 1, terms: 'GTC' });
  await ticket().getByLabel('Post-only').check();
  await send();
  await page.waitForSelector('form [data-good="true"]');
  const shown = await answer().textContent();
  const [, id, words] = /Order (\d+): .*repriced to ([\d,.]+)/.exec(shown) ?? assert.fail(shown);
  const order = await api.call('private/get_order_state', { order_id: id });
  assert.equal(number(words), order.price);
  assert.ok(order.price < ask + 5);
  await ticket().getByLabel('Post-only').uncheck();
  await api.call('private/cancel_all');
});

test('fields of another order type are not shown, and a market order is estimated', async () => {
  await fill({ type: 'Market', amount: 500 });
  assert.equal(await field('Price').count(), 0);
  const shown = ticket().locator('[data-of="at-once"]');
  await shown.waitFor();
  assert.match(await shown.textContent(), /[\d,]+\s+at about\s+3,2\d\d\.\d/);
  await fill({ price: FAR_BELOW, amount: 1 });
});

test('a share of the free funds fills in whole lots that they pay for', async () => {
  await fill({ price: 3000, amount: '' });
  await ticket().getByRole('button', { name: '50%' }).click();
  const free = (await summary('ZAR')).available_funds;
  assert.equal(Number(await field('Amount').inputValue()), Math.floor(free / 2 / 3000));
  await field('Amount').fill(String(Math.ceil(free / 3000) + 10));
  assert.match(
    await ticket().locator('[data-of="funds"]').textContent(),
    /Needs [\d,.]+\s+ZAR; [\d,.]+\s+ZAR are free/,
  );
  await field('Amount').fill('1');
});

test('an own order is a line on the chart that can be dragged to another price', async () => {
  // In a pause orders rest and nothing trades, so that the order is still there when the pointer
  // comes.
  const operator = await Api.open(venue, 'demo-operator');
  await operator.call('private/pitwire_pause', { instrument_name: NAME });
  const { best_bid_price: bid } = await api.call('public/ticker', { instrument_name: NAME });
  const price = Number((bid - 0.05).toFixed(2));
  const { order } = await api.call('private/buy', { instrument_name: NAME, amount: 2, type: 'limit', price });
  await page.waitForSelector(`[data-order="${order.order_id}"], [data-closed]`);
  const chart = page.getByRole('img', { name: /^Candles of/ });
  const box = await chart.boundingBox();
  // The line is found by the pointer that the page shows over it.
  let line = null;
  await until(async () => {
    for (let y = box.y + 4; y < box.y + box.height - 4 && line === null; y += 4) {
      await page.mouse.move(box.x + 60, y);
      if ((await chart.evaluate((element) => element.style.cursor)) === 'ns-resize') line = y;
    }
    return line !== null;
  }, 'the line');
  await page.mouse.move(box.x + 60, line);
  await page.mouse.down();
  await page.mouse.move(box.x + 60, line + 40, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('button', { name: 'Move it' }).click();
  await until(async () => {
    const moved = await api.call('private/get_order_state', { order_id: order.order_id });
    return moved.price < price;
  }, 'a lower price');
  await api.call('private/cancel_all');
  await operator.call('private/pitwire_resume', { instrument_name: NAME });
  operator.close();
});

test('theme, time zone and chart interval are the choice of the reader, also after a reload', async () => {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const button = page.getByRole('button', { name: /^Theme/ });
  while ((await button.textContent()).trim() !== 'Theme light') await button.click();
  assert.equal(await theme(), 'light');
  await page.reload();
  await page.waitForSelector('[data-phase="live"]');
  assert.equal(await theme(), 'light');
  while ((await button.textContent()).trim() !== 'Theme auto') await button.click();
  assert.equal(await theme(), 'dark');
  await page.getByLabel('Length of a candle').selectOption({ label: '1s' });
  await page.getByRole('img', { name: 'Candles of 1 seconds' }).waitFor();
  await page.getByRole('button', { name: /^Times/ }).click();
  assert.equal(JSON.parse(await page.evaluate(() => localStorage['pitwire.preferences'])).zone, 'local');
  await page.getByRole('button', { name: /^Times/ }).click();
});

test('a search leaves the instruments whose names match', async () => {
  const search = page.getByRole('searchbox', { name: 'Search instruments' });
  await search.fill('btc');
  const links = () => page.$$eval('nav[aria-label="Instruments"] a', (all) => all.map((a) => a.hash));
  assert.deepEqual((await links()).sort(), ['#BTC-PERPETUAL', '#BTC_USDC']);
  await search.press('Escape');
  await until(async () => (await links()).length > 5, 'all again');
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
  // A reload goes on by a token, which a venue forgets when it ends; only a login by secret comes
  // back then.
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: /^demo-a/ }).click();
  await page.waitForSelector('[data-account="demo-a"]');
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
  await place({ price: FAR_BELOW, amount: 1 });
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
    await tab('Open orders').click();
    for (const name of ['Edit order', 'Cancel order']) {
      const button = page.getByRole('button', { name: new RegExp(`^${name}`) }).first();
      await button.scrollIntoViewIfNeeded();
      const reach = await button.boundingBox();
      assert.ok(reach.x >= 0 && reach.x + reach.width <= width, `${name} is on the screen`);
      assert.equal(await scrolledSideways(button), 0, `${name} is reached without scrolling sideways`);
      if (width < 640) assert.ok(reach.height >= 44, `${reach.height} px for a finger`);
    }
    for (const cell of await page.locator('[data-order] .number').all()) {
      const covered = await cell.evaluate((seen) => {
        // Away from the bar at the bottom, under which the page scrolls.
        seen.scrollIntoView({ block: 'center' });
        const { left, right, top, bottom } = seen.getBoundingClientRect();
        return !seen.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
      });
      assert.ok(width >= 640 || !covered, `${await cell.textContent()} is covered`);
    }
    for (const name of ['Depth', 'Price']) {
      await tab(name).click();
      const cut = await page.locator('.legend').evaluate((legend) => legend.scrollWidth - legend.clientWidth);
      assert.ok(cut <= 0, `${cut} px of the legend of ${name} are cut off on ${width} px`);
    }
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/narrow-${width}.png`, fullPage: true });
  }
  await page.setViewportSize({ width: 390, height: 844 });
  assert.deepEqual(await smallTargets(page), [], 'a finger needs 44 px');
  await page.getByRole('button', { name: 'Sell', exact: true }).last().click();
  await until(
    async () => ticket().getByRole('radio', { name: 'Sell' }).isChecked(),
    'the bar of the phone begins an order',
  );
  await page.setViewportSize({ width: 1440, height: 900 });
  await api.call('private/cancel_all');
});

/** How far the elements around this one are scrolled sideways, in pixels. */
function scrolledSideways(locator) {
  return locator.evaluate((one) => {
    let sum = 0;
    for (let outer = one; outer !== null; outer = outer.parentElement) sum += outer.scrollLeft;
    return sum;
  });
}

/** What can be pressed and is lower or narrower than 44 px. A box counts with its label. */
function smallTargets(target) {
  return target.evaluate(() => {
    const all = document.querySelectorAll('button, a[href], input, select, textarea, summary, [role="tab"]');
    const boxes = [...all].map((one) => [one, (one.matches('label > input') && one.closest('label')) || one]);
    return boxes
      .filter(([one]) => one.checkVisibility() && getComputedStyle(one).pointerEvents !== 'none')
      .map(([one, box]) => [one, box.getBoundingClientRect()])
      .filter(([, { width, height }]) => width > 0 && (width < 43.5 || height < 43.5))
      .map(([one, { width, height }]) => `${one.outerHTML.slice(0, 120)}: ${width} × ${height} px`);
  });
}

test('logging out leaves nothing of the account on screen', async () => {
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByText('Log in to trade').waitFor();
  for (const left of ['[data-order]', '[data-fill]', '[data-currency]', '[data-account]'])
    assert.equal(await page.locator(left).count(), 0);
  await page.reload();
  await page.getByText('Log in to trade').waitFor();
});

test('nothing complained', () => {
  const expected = /WebSocket connection to .* failed|ERR_CONNECTION_REFUSED/;
  assert.deepEqual(
    browser.complaints.filter((text) => !expected.test(text)),
    [],
  );
});
