// A venue whose clock moves only when an operator advances it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SIZES, judge } from './axe.mjs';
import { withVenue } from './stage.mjs';
import { logIn, until } from './venue.mjs';

const NAME = 'AUC_ZAR';

let venue, browser, operator;

withVenue(
  async (stage) => {
    ({ venue, browser } = stage);
    operator = await logIn(browser, venue, NAME, 'demo-operator');
  },
  ['0', '127.0.0.1', ['--clock', 'manual']],
);

const bar = (page) => page.getByRole('group', { name: 'Session' });
const session = () => bar(operator).getAttribute('data-session');

test('one click skips to the next session, and the view of the auction opens by itself', async () => {
  const skip = async () => {
    const now = await session();
    await bar(operator).getByRole('button', { name: 'Next session' }).click();
    await until(async () => (await session()) !== now, `the session after ${now}`);
  };
  // The first session depends on the time of day at which the venue started.
  if ((await session()) !== 'continuous') await skip();
  await skip();
  assert.equal(await session(), 'intraday_auction');
  const auction = operator.getByRole('tab', { name: 'Auction' });
  await until(
    async () => (await auction.getAttribute('aria-selected')) === 'true',
    'the view of the auction',
  );
  await operator.waitForSelector('[data-session="intraday_auction"]');
  await judge(operator, 'auction', Object.keys(SIZES));
  await skip();
  assert.equal(await session(), 'continuous');
});

test('a member cannot move the clock', async () => {
  const member = await logIn(browser, venue, NAME, 'demo-a');
  await bar(member).waitFor();
  assert.equal(await bar(member).getByRole('button', { name: 'Next session' }).count(), 0);
});

test('nothing complained', () => assert.deepEqual(browser.complaints, []));
