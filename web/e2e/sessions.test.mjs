// Sessions on the page: an operator pauses, re-opens, extends and resumes a market while a member
// writes orders for it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withVenue } from './stage.mjs';
import { Api, logIn, number, picture, until } from './venue.mjs';

const NAME = 'MTN_ZAR';

let venue, browser, operator, member, api;

withVenue(async (stage) => {
  ({ venue, browser } = stage);
  operator = await logIn(browser, venue, NAME, 'demo-operator');
  member = await logIn(browser, venue, NAME, 'demo-a');
  api = stage.api = await Api.open(venue, 'demo-a');
  await operator.getByRole('tab', { name: 'Operator' }).click();
});

const row = () => operator.locator(`[data-instrument="${NAME}"]`);
const press = (name) =>
  row()
    .getByRole('button', { name: `${name} ${NAME}` })
    .click();
const confirm = (name) => operator.getByRole('dialog').getByRole('button', { name, exact: true }).click();
const bar = () => member.getByRole('group', { name: 'Session' });
const shown = (what) => bar().locator(`[data-of="${what}"]`);
const ticket = () => member.getByRole('form', { name: 'Order ticket' });
const choose = (word) => ticket().getByText(word, { exact: true }).click();
const field = (name) => ticket().getByRole('textbox', { name: new RegExp(`^${name}`) });
const terms = (label) => ticket().getByLabel('Time in force').selectOption({ label });
const send = () => ticket().locator('button[type="submit"]');
/** An amount of shares as the page shows it: from 10,000 on in thousands. */
const lots = (amount) => (amount < 10_000 ? amount.toLocaleString('en') : `${(amount / 1000).toFixed(2)}k`);
const auction = () => api.call('public/pitwire_get_auction', { instrument_name: NAME });
const seconds = async () => {
  const [minutes, rest] = (await shown('countdown').textContent()).split(':').map(Number);
  return minutes * 60 + rest;
};

async function order(page, { side, type = 'Limit', price, amount }) {
  const form = page.getByRole('form', { name: 'Order ticket' });
  await form.getByText(side, { exact: true }).click();
  await form.getByText(type, { exact: true }).click();
  if (price !== undefined) await form.getByRole('textbox', { name: /^Price/ }).fill(String(price));
  await form.getByRole('textbox', { name: /^Amount/ }).fill(String(amount));
  await form.locator('button[type="submit"]').click();
  await form.locator('[data-good="true"]').waitFor();
}

test('a market that trades without end shows no session', async () => {
  await member.waitForSelector('[data-side="bid"][data-price]');
  assert.equal(await bar().count(), 0);
  assert.equal(await member.getByRole('tab', { name: 'Auction' }).count(), 0);
});

test('a stop waits and says so', async () => {
  const { last_price } = await api.call('public/ticker', { instrument_name: NAME });
  await choose('Sell');
  await choose('Stop');
  await field('Stop price').fill((last_price / 2).toFixed(2));
  await field('Amount').fill('3');
  await send().click();
  await member.waitForSelector('form [data-good="true"]');
  const [waiting] = await api.call('private/get_open_orders', { type: 'trigger_all' });
  assert.equal(waiting.order_state, 'untriggered');
  const line = member.locator(`[data-order="${waiting.order_id}"]`);
  await line.waitFor();
  const text = await line.textContent();
  assert.ok(text.includes('untriggered') && text.includes('stop market'), text);
  await api.call('private/cancel', { order_id: waiting.order_id });
});

test('a hidden order is written, and rests unseen', async () => {
  const { best_bid_price } = await api.call('public/ticker', { instrument_name: NAME });
  await choose('Buy');
  await choose('Hidden');
  await field('Price').fill((best_bid_price / 2).toFixed(2));
  await field('Amount').fill('9');
  await field('Minimum execution').fill('4');
  await send().click();
  await member.waitForSelector('form [data-good="true"]');
  const [hidden] = await api.call('private/get_open_orders', {});
  assert.deepEqual([hidden.hidden, hidden.min_execution, hidden.amount], [true, 4, 9]);
  const line = member.locator(`[data-order="${hidden.order_id}"]`);
  await line.waitFor();
  assert.ok((await line.textContent()).includes('hidden limit GTC at least 4'), await line.textContent());
  await picture(member, 'hidden-order');
  await api.call('private/cancel', { order_id: hidden.order_id });
});

test('a pause is announced, and the ticket says what it does not permit', async () => {
  await press('Pause');
  await confirm('Pause');
  await member.waitForSelector('[data-session="pause"]');
  assert.equal(await shown('reason').textContent(), 'by an operator');
  const permit = ticket().locator('[data-of="permit"]');
  await choose('Hidden');
  assert.equal(await permit.textContent(), 'Not in this session: pause.');
  await choose('Limit');
  await terms('IOC');
  assert.equal(await permit.textContent(), 'Not in this session: pause.');
  // The order may be sent; the venue's refusal names the rule.
  await field('Price').fill('96');
  await field('Amount').fill('1');
  await send().click();
  const answer = ticket().locator('[data-good="false"]');
  await answer.waitFor();
  assert.ok((await answer.textContent()).includes('pause x ioc'), await answer.textContent());
  await terms('GTC');
  assert.equal(await permit.count(), 0);
});

test('a re-opening call counts down, and an extension moves its end', async () => {
  await press('Re-open');
  await member.waitForSelector('[data-session="reopening_auction"]');
  const first = await seconds();
  assert.ok(first > 20 && first <= 60, `${first}`);
  await until(async () => (await seconds()) < first, 'a countdown');
  await until(async () => (await seconds()) <= first - 3, 'three seconds less');
  await press('Extend the call of');
  await until(async () => (await seconds()) > first - 2, 'a later end');
  assert.equal(await shown('reason').textContent(), 'extended');
});

test('what the call would do is what the API says, in numbers and as two curves', async () => {
  await api.call('public/subscribe', { channels: [`auction.${NAME}`] });
  const { best_bid_price: bid, best_ask_price: ask } = await api.call('public/ticker', {
    instrument_name: NAME,
  });
  await order(member, { side: 'Buy', price: Math.max(bid, ask).toFixed(2), amount: 30 });
  await order(member, { side: 'Sell', price: Math.min(bid, ask).toFixed(2), amount: 20 });
  // The flow keeps entering orders, and the page may be behind. What it shows at one moment is one
  // of the states that the venue has published since the two orders.
  const entered = api.notices.length;
  await until(async () => {
    const labels = await bar().evaluate((element) =>
      ['indicative-price', 'indicative-volume', 'imbalance'].map(
        (what) => element.querySelector(`[data-of="${what}"]`)?.textContent ?? '',
      ),
    );
    return api.notices
      .slice(entered)
      .filter(({ data }) => data.indicative_price !== undefined)
      .map(({ data }) => [
        data.indicative_price.toFixed(2),
        lots(data.indicative_volume),
        data.imbalance === 0 ? 'balanced' : lots(Math.abs(data.imbalance)),
      ])
      .some((published) => published.every((text, at) => text === labels[at]));
  }, 'a price, a volume and an imbalance that were published together');
  // The call has opened this view by itself.
  await member.waitForSelector('svg circle[data-of="cross"]');
  const paths = await member.$$eval('svg path.buy, svg path.sell', (all) =>
    all.map((path) => path.getAttribute('d')),
  );
  assert.equal(paths.length, 2);
  const words = await member.locator('.legend').innerText();
  assert.match(words, /bought and sold at each price/);
  assert.ok(
    paths.every((d) => /^M0 [\d.]+V/.test(d) && !d.includes('NaN')),
    paths.join(' '),
  );
  await picture(member, 'auction');
});

test('the uncross is shown with its price and its amount', async () => {
  await press('Resume');
  await shown('uncross').waitFor();
  const { uncross, type } = await auction();
  assert.equal(type, 'result');
  const text = await shown('uncross').textContent();
  const words = text.replaceAll(/\s+/g, ' ').trim();
  assert.ok(words.startsWith('reopening auction uncrossed'), words);
  assert.equal(number(/at ([\d.,]+)/.exec(words)[1]), uncross.price);
  // The call has ended, so the chart of prices is back, with the price of the uncross.
  await member.locator(`[data-labels="reopening auction ${uncross.price}"]`).waitFor();
  const venueOperator = await Api.open(venue, 'demo-operator');
  const closing = { instrument_name: NAME, price: uncross.price };
  await venueOperator.call('private/pitwire_closing_price', closing);
  venueOperator.close();
  await member.locator(`[data-labels^="close ${uncross.price}, "]`).waitFor();
  await picture(member, 'uncrossed');
});

test('a halted market can be resumed or re-opened, and takes no orders meanwhile', async () => {
  await press('Halt');
  await confirm('Halt');
  await member.waitForSelector('[data-session="halt"]');
  assert.equal(await ticket().locator('[data-of="permit"]').textContent(), 'No orders are taken: halt.');
  await picture(operator, 'operator-sessions');
  await press('Resume');
  await until(
    async () => (await bar().count()) === 0 || (await shown('uncross').count()) === 1,
    'trading again',
  );
});

test('nothing complained', () => assert.deepEqual(browser.complaints, []));
