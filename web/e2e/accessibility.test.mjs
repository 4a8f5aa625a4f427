// Every view in both themes, judged by axe.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { Venue, logIn, openBrowser, picture } from './venue.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const THEMES = ['dark', 'light'];
const SIZES = { desktop: [1440, 900], tablet: [820, 1180], phone: [390, 844] };

let venue;
let browser;
let page;

before(async () => {
  venue = await Venue.create();
  browser = await openBrowser(venue);
  page = await browser.newPage();
  await page.goto(`${venue.url}/#NPN_ZAR`);
  await page.waitForSelector('[data-side="ask"][data-price]');
});

after(async () => {
  await browser?.context.close();
  await venue?.end();
});

/** Runs in the page. A colour on its way from one theme to the other belongs to neither. */
async function endTransitions() {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  // A new size takes one frame to be observed and one to be drawn.
  await frame();
  await frame();
  const running = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
  // The end of one starts others below it, which inherit its colour.
  for (let left = running(); left.length > 0; left = running()) left.forEach((one) => one.finish());
}

/** Judges what is on screen in both themes and, where `sizes` says so, at other sizes. */
async function judge(target, view, sizes = ['desktop']) {
  for (const size of sizes)
    for (const theme of THEMES) {
      const [width, height] = SIZES[size];
      await target.setViewportSize({ width, height });
      await target.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
      await target.evaluate(endTransitions);
      // The content security policy forbids foreign scripts, but not evaluated ones.
      await target.evaluate(`${AXE};0`);
      const { violations } = await target.evaluate(() => globalThis.axe.run(document));
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
      assert.deepEqual(found, [], `${view}, ${size}, ${theme}`);
      await picture(target, `axe-${view}-${size}-${theme}`);
    }
  await target.setViewportSize({ width: 1440, height: 900 });
}

test('the market before a login', () => judge(page, 'market', Object.keys(SIZES)));

test('a member at work, in each tab of the account', async () => {
  const member = await logIn(browser, venue, 'NPN_ZAR', 'demo-a');
  const ticket = member.getByRole('form', { name: 'Order ticket' });
  const send = async (type, price, amount) => {
    await ticket.getByText(type, { exact: true }).click();
    if (price) await ticket.getByRole('textbox', { name: /^Price/ }).fill(price);
    await ticket.getByRole('textbox', { name: /^Amount/ }).fill(amount);
    await ticket.locator('button[type="submit"]').click();
    await member.waitForSelector('form [data-good="true"]');
  };
  await send('Limit', '3000', '3');
  await send('Market', '', '2');
  for (const name of ['Open orders', 'Fills', 'Order history', 'Balances', 'Positions']) {
    await member.getByRole('tab', { name }).click();
    await judge(member, `member-${name.toLowerCase().replaceAll(' ', '-')}`);
  }
  await member.getByRole('tab', { name: 'Depth' }).click();
  await judge(member, 'depth');
  await member.getByRole('tab', { name: 'Open orders' }).click();
  await member.getByRole('button', { name: 'Cancel all' }).click();
  await judge(member, 'question');
  await member.getByRole('button', { name: 'No, leave it' }).click();
  await judge(member, 'member', Object.keys(SIZES));
  await member.close();
});

test('the operator', async () => {
  const operator = await logIn(browser, venue, 'NPN_ZAR', 'demo-operator');
  await operator.getByRole('tab', { name: 'Operator' }).click();
  await operator.waitForSelector('[data-instrument="NPN_ZAR"]');
  await operator.waitForSelector('[data-chart="Commands"] path[d^="M"]');
  await judge(operator, 'operator', Object.keys(SIZES));
  await operator.close();
});
