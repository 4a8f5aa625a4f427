// An operator uses one page while a member trades on another.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFile } from 'node:fs/promises';
import { withVenue } from './stage.mjs';
import { Api, logIn, number, picture, until } from './venue.mjs';

const NAME = 'SBK_ZAR';

let venue, browser, operator, member, api;

withVenue(async (stage) => {
  ({ venue, browser } = stage);
  operator = await logIn(browser, venue, NAME, 'demo-operator');
  member = await logIn(browser, venue, NAME, 'demo-a');
  api = stage.api = await Api.open(venue, 'demo-operator');
});

const panel = (name) => operator.getByRole('region', { name, exact: true });
const row = (name) => operator.locator(`[data-instrument="${name}"]`);
const stateOf = (name) => row(name).locator('[data-of="state"]');
const confirm = (name) => operator.getByRole('dialog').getByRole('button', { name, exact: true }).click();
const said = (text) => operator.locator('[data-good="true"]', { hasText: text }).waitFor();
const instrument = async (name) =>
  (await api.call('public/get_instruments', {})).find((i) => i.instrument_name === name);
const account = async (name) =>
  (await api.call('private/pitwire_get_accounts', {})).find((a) => a.name === name);

async function order(page, { side = 'Buy', price, amount }) {
  const ticket = page.getByRole('form', { name: 'Order ticket' });
  await ticket.getByText(side, { exact: true }).click();
  await ticket.getByText('Limit', { exact: true }).click();
  await ticket.getByRole('textbox', { name: /^Price/ }).fill(String(price));
  await ticket.getByRole('textbox', { name: /^Amount/ }).fill(String(amount));
  await ticket.locator('button[type="submit"]').click();
  const answer = ticket.locator('[data-good]');
  await answer.waitFor();
  return { good: (await answer.getAttribute('data-good')) === 'true', text: await answer.textContent() };
}

/** The numbers of a book without trades stay the same. */
async function isStill(page, name) {
  const read = () => page.evaluate(() => document.querySelector('[data-meter="sequence"]').textContent);
  await page.goto(`${venue.url}/#${name}`);
  await page.waitForSelector('[data-side="bid"][data-price]');
  let seen = await read();
  await until(async () => {
    const before = seen;
    await page.waitForTimeout(1500);
    seen = await read();
    return seen === before;
  }, 'a book that stands still');
}

test('only an operator is shown the panel', async () => {
  assert.equal(await member.getByRole('tab', { name: 'Operator' }).count(), 0);
  await operator.getByRole('tab', { name: 'Operator' }).click();
  await panel('Instruments').waitFor();
  await operator.waitForSelector('[data-venue="open"]');
  assert.equal(await operator.locator('text=No operator commands here').count(), 0);
});

test('the first cards stand side by side', async () => {
  const tops = () =>
    Promise.all(['Venue', 'Flow', 'Activity'].map(async (name) => (await panel(name).boundingBox()).y));
  const [first, ...others] = await tops();
  assert.deepEqual(others, [first, first]);
});

test('the state of the venue is what the API says', async () => {
  const status = await api.call('private/pitwire_status', {});
  await until(
    async () => (await panel('Venue').textContent()).includes(status.durability),
    'the panel to have asked',
  );
  await operator.waitForSelector(`[data-flow="${status.flow.running ? 'running' : 'stopped'}"]`);
  const accounts = await api.call('private/pitwire_get_accounts', {});
  await operator.waitForSelector('[data-row="demo-a"]');
  const rows = await operator.$$eval('[data-row]', (all) => all.map((one) => one.dataset.row));
  assert.deepEqual(
    rows,
    accounts.map((one) => one.name),
  );
  await picture(operator, 'operator');
});

test('a halt asks first, shows, and disables the ticket of the member with the reason', async () => {
  await row(NAME)
    .getByRole('button', { name: `Halt ${NAME}` })
    .click();
  await picture(operator, 'operator-confirm');
  await confirm('No, leave it');
  assert.equal(await stateOf(NAME).textContent(), 'continuous');
  await row(NAME)
    .getByRole('button', { name: `Halt ${NAME}` })
    .click();
  await confirm('Halt');
  await until(async () => /^halt/.test(await stateOf(NAME).textContent()), 'the state of the operator');
  await member.waitForSelector('h1 + p .badge');
  assert.match(await member.locator('h1 + p .badge').textContent(), /halt/);
  const ticket = member.getByRole('form', { name: 'Order ticket' });
  await ticket.getByText('Limit', { exact: true }).click();
  await ticket.getByRole('textbox', { name: /^Price/ }).fill('200');
  await ticket.getByRole('textbox', { name: /^Amount/ }).fill('1');
  assert.ok(await ticket.locator('button[type="submit"]').isDisabled());
  assert.match(await ticket.textContent(), /No orders are taken: halt/);
  await picture(member, 'halted');
});

test('resumed, the same order enters', async () => {
  await row(NAME)
    .getByRole('button', { name: `Resume ${NAME}` })
    .click();
  await until(async () => (await stateOf(NAME).textContent()) === 'continuous', 'open again');
  await member.locator('h1 + p .badge').waitFor({ state: 'detached' });
  const entered = await order(member, { price: 200, amount: 1 });
  assert.equal(entered.good, true, entered.text);
  await member.waitForSelector('[data-order]');
});

test('the kill of an account cancels its orders, and keeps it out until it is lifted', async () => {
  const card = panel('Kill switch');
  await card.getByLabel('What').selectOption('account');
  await card.getByLabel('Account name').fill('demo-a');
  await card.getByLabel('Reason').fill('a test of the switch');
  await card.getByRole('button', { name: 'Kill', exact: true }).click();
  await confirm('Kill');
  await said('orders cancelled: 1');
  await until(async () => (await account('demo-a')).killed, 'killed at the venue');
  await operator.locator('[data-row="demo-a"]', { hasText: 'killed' }).waitFor();
  // The kill has ended the member's login, and a new one is refused.
  await member.close();
  await assert.rejects(Api.open(venue, 'demo-a'), { message: 'locked_by_admin' });
  await card.getByRole('button', { name: 'Lift', exact: true }).click();
  await operator.locator('[data-row="demo-a"]', { hasText: 'open' }).waitFor();
  member = await logIn(browser, venue, NAME, 'demo-a');
  assert.equal(await member.locator('[data-order]').count(), 0);
  const entered = await order(member, { price: 200, amount: 1 });
  assert.equal(entered.good, true, entered.text);
});

test('a live order is listed for the operator, and killed alone', async () => {
  const card = panel('Live orders');
  // The member's page knows the live order. The operator's list is polled and may still show
  // others.
  const id = await member.locator('[data-order]').first().getAttribute('data-order');
  await card.locator(`[data-live="${id}"]`).waitFor();
  await card.getByRole('button', { name: `Kill order ${id}` }).click();
  await confirm('Kill');
  await member.waitForSelector(`[data-order="${id}"]`, { state: 'detached' });
  await card.locator(`[data-live="${id}"]`).waitFor({ state: 'detached' });
  const entered = await order(member, { price: 200, amount: 1 });
  assert.equal(entered.good, true, 'an order that was killed blocks nothing');
});

test('the kill of the venue shows, and is lifted', async () => {
  const card = panel('Kill switch');
  await card.getByLabel('What').selectOption('venue');
  await card.getByLabel('Reason').fill('a test of the big switch');
  await card.getByRole('button', { name: 'Kill', exact: true }).click();
  await confirm('Kill');
  await operator.waitForSelector('[data-venue="killed"]');
  assert.equal((await api.call('private/pitwire_status', {})).venue_killed, true);
  await card.getByRole('button', { name: 'Lift', exact: true }).click();
  await operator.waitForSelector('[data-venue="open"]');
});

test('the flow stops, and starts at another rate', async () => {
  // The kill took every order of the flow: a stopped flow would leave an empty book.
  await until(async () => {
    const book = await api.call('public/get_order_book', { instrument_name: NAME });
    return book.bids.length > 0 && book.asks.length > 0;
  }, 'a book that has come back');
  await panel('Flow').getByRole('button', { name: 'Stop flow' }).click();
  await operator.waitForSelector('[data-flow="stopped"]');
  assert.equal((await api.call('private/pitwire_flow', { action: 'status' })).running, false);
  await isStill(member, NAME);
  await panel('Flow').getByLabel('Rate in per cent').fill('50');
  await panel('Flow').getByRole('button', { name: 'Start flow' }).click();
  await operator.waitForSelector('[data-flow="running"]');
  const flow = await api.call('private/pitwire_flow', { action: 'status' });
  assert.deepEqual([flow.running, flow.rate_percent], [true, 50]);
  const read = () => member.evaluate(() => document.querySelector('[data-meter="sequence"]').textContent);
  const before = await read();
  await until(async () => (await read()) !== before, 'a book that moves again');
});

test('the flow of one instrument stops and runs at its rate', async () => {
  const OTHER = 'NPN_ZAR';
  const form = panel('Flow').getByRole('form', { name: `Flow of ${OTHER}`, exact: true });
  const state = operator.locator(`[data-flow-of="${OTHER}"] [data-of="flow"]`);
  await form.getByRole('button', { name: `Stop the flow of ${OTHER}` }).click();
  await until(async () => (await state.textContent()) === 'stopped', 'a stopped instrument');
  const setting = async () =>
    (await api.call('private/pitwire_flow', { action: 'status' })).instruments ?? [];
  assert.deepEqual(await setting(), [{ instrument_name: OTHER, running: false, rate_percent: 100 }]);
  await isStill(member, OTHER);
  const rest = () => operator.locator(`[data-flow-of="${NAME}"] [data-of="flow"]`).textContent();
  assert.equal(await rest(), 'running');
  await form.getByRole('spinbutton').fill('200');
  await form.getByRole('button', { name: 'Start' }).click();
  await until(async () => (await state.textContent()) === 'running', 'a running instrument');
  assert.deepEqual(await setting(), [{ instrument_name: OTHER, running: true, rate_percent: 200 }]);
  const read = () => member.evaluate(() => document.querySelector('[data-meter="sequence"]').textContent);
  const before = await read();
  await until(async () => (await read()) !== before, 'a book that moves again');
  await picture(operator, 'operator-flow');
});

test('throughput and latency are drawn', async () => {
  for (const name of ['Commands', 'Trades', 'Requests', 'Server latency']) {
    const chart = panel('Activity').locator(`[data-chart="${name}"]`);
    await until(
      async () => /\d/.test(await chart.locator('dd').first().textContent()),
      `a figure of ${name}`,
    );
    await until(
      async () => /^M.*L/.test((await chart.locator('path').getAttribute('d')) ?? ''),
      `a line of ${name}`,
    );
  }
});

test('trades and accounts are saved as CSV', async () => {
  for (const [button, file, head] of [
    ['Trades', `trades-${NAME}.csv`, 'trade_seq,'],
    ['Accounts', 'accounts.csv', 'account,'],
  ]) {
    await panel('Export').getByLabel('Instrument').selectOption(NAME);
    const saved = operator.waitForEvent('download');
    await panel('Export').getByRole('button', { name: button, exact: true }).click();
    const download = await saved;
    assert.equal(download.suggestedFilename(), file);
    const lines = (await readFile(await download.path(), 'utf8')).trim().split(/\r?\n/);
    assert.ok(lines[0].startsWith(head) && lines.length > 1, lines[0]);
  }
});

test('a session is named, a call is started and extended, and the day is closed at a price', async () => {
  const click = (name) => row(NAME).getByRole('button', { name, exact: true }).click();
  assert.equal(await stateOf(NAME).textContent(), 'continuous');
  await click(`Start a volatility call in ${NAME}`);
  await confirm('Start the call');
  await until(async () => /volatility/.test(await stateOf(NAME).textContent()), 'a volatility call');
  await click(`Extend the call of ${NAME}`);
  await said(`The call of ${NAME} runs on`);
  await picture(operator, 'operator-call');
  await click(`Resume ${NAME}`);
  await until(async () => (await stateOf(NAME).textContent()) === 'continuous', 'continuous again');
  await click(`Change the limits of ${NAME}`);
  const form = operator.getByRole('form', { name: `Closing price of ${NAME}` });
  const { last_price: last } = await api.call('public/ticker', { instrument_name: NAME });
  await form.getByLabel('Closing price').fill(String(last));
  await form.getByRole('button', { name: 'Set closing price' }).click();
  await said(`The closing price of ${NAME} is ${last}`);
  await click(`Close ${NAME} for the day`);
  await confirm('Halt and close');
  await until(async () => /^halt/.test(await stateOf(NAME).textContent()), 'halted until the close');
  await click(`Resume ${NAME}`);
  await until(async () => (await stateOf(NAME).textContent()) === 'continuous', 'trading resumed');
});

test('a new account opens with a secret shown once; it logs in, and holds what is deposited', async () => {
  const form = operator.getByRole('form', { name: 'New account' });
  await form.getByLabel('Name').fill('member-7');
  await form.getByRole('button', { name: 'Open' }).click();
  const id = await operator.locator('[data-of="client_id"]').textContent();
  const secret = await operator.locator('[data-of="client_secret"]').textContent();
  assert.match(await operator.getByRole('alert').textContent(), /shown once/);
  await operator.locator('[data-row="member-7"]').waitFor();
  const deposit = operator.getByRole('form', { name: 'Deposit' });
  await deposit.getByLabel('Account').fill('member-7');
  await deposit.getByLabel('Currency').fill('ZAR');
  await deposit.getByLabel('Amount').fill('12345');
  await deposit.getByRole('button', { name: 'Book it' }).click();
  await said('Deposited 12345 ZAR');
  await picture(operator, 'operator-account');
  await operator.getByRole('button', { name: 'I have it' }).click();
  assert.equal(await operator.locator('[data-of="client_secret"]').count(), 0);

  const page = await browser.newPage();
  await page.goto(`${venue.url}/#${NAME}`);
  await page.getByLabel('Client id').fill(id);
  await page.getByLabel('Client secret').fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForSelector('[data-account]');
  await page.getByRole('tab', { name: 'Balances' }).click();
  const cell = page.locator('[data-currency="ZAR"] [data-of="balance"]');
  await cell.waitFor();
  assert.equal(number(await cell.textContent()), 12345);
  await page.close();
});

test('limits of an account change, and it can be deleted', async () => {
  await operator.getByRole('button', { name: 'Change the limits of member-7' }).click();
  const form = operator.getByRole('form', { name: 'Limits of member-7' });
  await form.getByLabel('Open orders at most').fill('3');
  await form.getByRole('button', { name: 'Change' }).click();
  await operator.locator('[data-row="member-7"]', { hasText: '3 open' }).waitFor();
  assert.equal((await account('member-7')).limits.max_open_orders, 3);
  await operator.getByRole('button', { name: 'Delete member-7' }).click();
  await confirm('Delete');
  await until(async () => {
    const left = await account('member-7');
    return left === undefined || left.closed;
  }, 'a closed account');
});

test('a new instrument is listed for everybody, trades, gets limits, and is deleted', async () => {
  const form = operator.getByRole('form', { name: 'New instrument' });
  for (const [label, text] of [
    ['Base', 'ETH'],
    ['Quote', 'ZAR'],
    ['Tick', '0.05'],
    ['Lot', '0.2'],
    ['Start price', '50000'],
  ])
    await form.getByLabel(label).fill(text);
  await form.getByRole('button', { name: 'List it' }).click();
  await row('ETH_ZAR').waitFor();
  const listed = await instrument('ETH_ZAR');
  assert.deepEqual([listed.tick_size, listed.min_trade_amount], [0.05, 0.2]);
  await member.locator('nav a[href="#ETH_ZAR"]').click();
  await member.waitForSelector('h1:has-text("ETH")');
  const entered = await order(member, { price: 49000.05, amount: 0.4 });
  assert.equal(entered.good, true, entered.text);
  await row('ETH_ZAR').getByRole('button', { name: 'Change the limits' }).click();
  const limits = operator.getByRole('form', { name: 'Limits of ETH_ZAR' });
  await limits.getByLabel('Most amount of one order').fill('5');
  await limits.getByRole('button', { name: 'Change' }).click();
  await said('ETH_ZAR is changed');
  await picture(operator, 'operator-instrument');
  await row('ETH_ZAR').getByRole('button', { name: 'Delete ETH_ZAR' }).click();
  await confirm('Delete');
  await row('ETH_ZAR').waitFor({ state: 'detached' });
  await member.locator('nav a[href="#ETH_ZAR"]').waitFor({ state: 'detached' });
});

test('a bust of a trade that never was is refused on screen', async () => {
  const card = panel('Bust a trade');
  await card.getByLabel('Trade id').fill('11000999999999');
  await card.getByLabel('Reason').fill('a test');
  await card.getByRole('button', { name: 'Bust' }).click();
  await confirm('Bust it');
  const answer = operator.locator('.said [data-good="false"]');
  await answer.waitFor();
  assert.match(await answer.textContent(), /trade/);
});

test('a bust gives both sides back what they gave', async () => {
  await member.goto(`${venue.url}/#${NAME}`);
  await member.waitForSelector('[data-side="ask"][data-price]');
  const other = await Api.open(venue, 'demo-a');
  const held = async () => {
    const { summaries } = await other.call('private/get_account_summaries', {});
    return ['SBK', 'ZAR'].map((name) => summaries.find((summary) => summary.currency === name)?.balance ?? 0);
  };
  const before = await held();
  const bought = await other.call('private/buy', { instrument_name: NAME, amount: 1, type: 'market' });
  const [trade] = bought.trades;
  await member.getByRole('tab', { name: 'Fills' }).click();
  await member.waitForSelector(`[data-fill="${trade.trade_id}"]`);
  const card = panel('Bust a trade');
  await card.getByLabel('Trade id').fill(trade.trade_id);
  await card.getByLabel('Reason').fill('a wrong price');
  await card.getByRole('button', { name: 'Bust' }).click();
  await confirm('Bust it');
  await said(`Trade ${trade.trade_id} is bust`);
  assert.deepEqual(await held(), before);
  await member.getByRole('tab', { name: 'Balances' }).click();
  const cell = member.locator('[data-currency="SBK"] [data-of="balance"]');
  await until(async () => number(await cell.textContent()) === before[0], 'the balance of before');
  other.close();
});

test('the panel fits a narrow screen', async () => {
  await operator.setViewportSize({ width: 390, height: 844 });
  const wide = await operator.evaluate(() => document.documentElement.scrollWidth);
  await picture(operator, 'operator-narrow');
  assert.ok(wide <= 390, `${wide} px of content on 390 px`);
  // A button without the name of its instrument or account beside it would be a trap.
  for (const name of [row(NAME), panel('Accounts').locator('[data-row="demo-a"]')]) {
    await name.scrollIntoViewIfNeeded();
    const covered = await name.getByRole('rowheader').evaluate((cell) => {
      const { left, right, top, bottom } = cell.getBoundingClientRect();
      return !cell.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
    });
    assert.ok(!covered, 'the name of a row is covered');
    for (const button of await name.getByRole('button').all()) {
      const box = await button.boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= 390 && box.height >= 44, JSON.stringify(box));
    }
  }
});

test('nothing complained', () => assert.deepEqual(browser.complaints, []));
