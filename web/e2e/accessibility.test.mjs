// Every view in both themes, judged by axe.
import { test } from 'node:test';
import { SIZES, judge } from './axe.mjs';
import { withVenue } from './stage.mjs';
import { logIn } from './venue.mjs';

let venue, browser, page;

withVenue(async (stage) => {
  ({ venue, browser } = stage);
  page = await browser.newPage();
  await page.goto(`${venue.url}/#NPN_ZAR`);
  await page.waitForSelector('[data-side="ask"][data-price]');
});

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
