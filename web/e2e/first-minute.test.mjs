// The first minute of a fresh demo venue, as a newcomer sees it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withVenue } from './stage.mjs';
import { picture, until } from './venue.mjs';

let venue, browser;

withVenue(
  (stage) => {
    ({ venue, browser } = stage);
  },
  ['6h'],
);

test('a fresh page shows at least a hundred candles, a full tape and the figures of the day', async () => {
  const page = await browser.newPage();
  await page.goto(`${venue.url}/#NPN_ZAR`);
  const plot = page.getByRole('img', { name: /^Candles of 60 seconds/ });
  await until(async () => Number(await plot.getAttribute('data-candles')) >= 100, 'a hundred candles');
  await until(async () => Number(await plot.getAttribute('data-visible')) >= 100, 'a hundred visible ones');
  await page.waitForSelector('tr[data-sequence]');
  assert.ok((await page.locator('tr[data-sequence]').count()) >= 30);
  const header = await page.locator('header dl').textContent();
  assert.ok(!header.includes('–'), header);
  await picture(page, 'first-minute');
  assert.deepEqual(browser.complaints, []);
});
