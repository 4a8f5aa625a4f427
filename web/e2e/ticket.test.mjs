// The ticket and the choices of the reader, at a venue in which only the test trades. The browser
// is in Johannesburg, two hours ahead of UTC.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { withVenue } from './stage.mjs';
import { Api, logIn, number, until } from './venue.mjs';

const NAME = 'NPN_ZAR';

let browser, page, maker, api;

withVenue(
  async (stage) => {
    ({ browser } = stage);
    maker = await Api.open(stage.venue, 'demo-b');
    page = await logIn(browser, stage.venue, NAME, 'demo-a');
    api = stage.api = await Api.open(stage.venue, 'demo-a');
  },
  ['0', '127.0.0.1', ['--no-flow']],
  { timezoneId: 'Africa/Johannesburg' },
);

after(() => maker?.close());

const ticket = () => page.getByRole('form', { name: 'Order ticket' });
const field = (name) => ticket().getByRole('textbox', { name: new RegExp(`^${name}`) });
const choose = (word) => ticket().getByText(word, { exact: true }).click();
const offer = (price, amount) =>
  maker.call('private/sell', { instrument_name: NAME, type: 'limit', price, amount });

test('each order type shows its own fields and no others', async () => {
  const all = ['Stop price', 'Price', 'Amount', 'Display', 'Minimum execution'];
  for (const [type, fields, hasPostOnly] of [
    ['Limit', ['Price', 'Amount', 'Display'], true],
    ['Market', ['Amount'], false],
    ['Stop', ['Stop price', 'Amount'], false],
    ['Stop limit', ['Stop price', 'Price', 'Amount'], false],
    ['Hidden', ['Price', 'Amount', 'Minimum execution'], false],
  ]) {
    await choose(type);
    await until(
      async () => (await ticket().getByLabel('Post-only').count()) === Number(hasPostOnly),
      `post-only of ${type}`,
    );
    const shown = [];
    for (const name of all) if (await field(name).count()) shown.push(name);
    assert.deepEqual(shown, fields, type);
  }
});

test('slippage is the average less the best price', async () => {
  await offer(3250, 1);
  await offer(3260, 1);
  await choose('Market');
  await field('Amount').fill('2');
  const slippage = ticket().locator('[data-of="slippage"]');
  await slippage.waitFor();
  assert.equal(number((await slippage.textContent()).replace('ZAR', '')), 5);
  assert.match(await ticket().locator('[data-of="at-once"]').textContent(), /^\s*2\s+at about\s+3,255\.000/);
  await field('Amount').fill('1');
  await slippage.waitFor({ state: 'detached' });
  await maker.call('private/cancel_all');
});

test('the message of a fill has the exact average price', async () => {
  await offer(3250, 1);
  await offer(3250.01, 2);
  await choose('Market');
  await field('Amount').fill('3');
  await ticket().locator('button[type="submit"]').click();
  await page.waitForSelector('form [data-good="true"]');
  const shown = await ticket().locator('[data-good]').textContent();
  const [, id, average] = /Order (\d+): .*, 3 at ([\d,.]+)/.exec(shown) ?? assert.fail(shown);
  const order = await api.call('private/get_order_state', { order_id: id });
  assert.equal(order.average_price, 3250.00666667);
  assert.equal(number(average), order.average_price);
});

test('own fills are drawn on the chart', async () => {
  const chart = page.getByRole('img', { name: /^Candles of/ });
  // One order, which met two others.
  await until(async () => (await chart.getAttribute('data-fills')) === '2', 'two marks');
  await page.goto(new URL('#SBK_ZAR', page.url()).href);
  await until(async () => (await chart.getAttribute('data-fills')) === '0', 'no marks of another market');
  await page.goto(new URL(`#${NAME}`, page.url()).href);
  await until(async () => (await chart.getAttribute('data-fills')) === '2', 'the marks again');
});

test('the chart has candles of six lengths', async () => {
  const select = page.getByLabel('Length of a candle');
  const chart = page.getByRole('img', { name: /^Candles of/ });
  const words = await select.locator('option').allTextContents();
  assert.deepEqual(words, ['1s', '5s', '1m', '5m', '15m', '1h']);
  for (const [index, seconds] of [1, 5, 60, 300, 900, 3600].entries()) {
    await select.selectOption({ label: words[index] });
    await page.getByRole('img', { name: `Candles of ${seconds} seconds` }).waitFor();
    await until(async () => Number(await chart.getAttribute('data-candles')) > 0, `candles of ${seconds} s`);
  }
  await select.selectOption({ label: '1m' });
});

test('the volume of an inverse contract is in base currency, also of trades that arrive', async () => {
  await page.goto(new URL('#BTC-PERPETUAL', page.url()).href);
  const chooseHours = async () => {
    await page.getByLabel('Length of a candle').selectOption({ label: '1h' });
    await page.getByRole('img', { name: 'Candles of 3600 seconds with volume, BTC-PERPETUAL' }).waitFor();
  };
  await chooseHours();
  const shown = async () => /Vol\s*([\d.,]+)/.exec(await page.locator('.chart .legend').textContent())?.[1];
  const order = { instrument_name: 'BTC-PERPETUAL', type: 'limit', price: 60_000, amount: 6_000 };
  for (const volume of ['0.1000', '0.2000']) {
    await maker.call('private/sell', order);
    await api.call('private/buy', order);
    await until(async () => (await shown()) === volume, `${volume} BTC`);
  }
  await page.reload();
  await chooseHours();
  await until(async () => (await shown()) === '0.2000', 'the same volume after a reload');
  await until(
    async () => /24h volume\s*0\.2000\s*BTC/.test(await page.locator('header dl').textContent()),
    'the volume of a day',
  );
  await page.goto(new URL(`#${NAME}`, page.url()).href);
});

test('times follow the time zone that the reader chose', async () => {
  const times = () => page.$$eval('tr[data-sequence] td.time', (all) => all.map((one) => one.textContent));
  const { trades } = await api.call('public/get_last_trades_by_instrument', { instrument_name: NAME });
  const clock = (trade, hours) => new Date(trade.timestamp + hours * 3_600_000).toISOString().slice(11, 19);
  const button = page.getByRole('button', { name: /^Times/ });
  const agrees = (hours, word) =>
    until(
      async () =>
        (await button.textContent()).trim() === `Times ${word}` &&
        JSON.stringify(await times()) === JSON.stringify(trades.map((trade) => clock(trade, hours))),
      `times of ${word}`,
    );
  await agrees(0, 'UTC');
  await button.click();
  await agrees(2, 'GMT+2');
  await page.reload();
  await agrees(2, 'GMT+2');
  await button.click();
  await agrees(0, 'UTC');
});

test('nothing complained', () => assert.deepEqual(browser.complaints, []));
