// The page in a real browser with a real venue, which is killed and restarted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withVenue } from './stage.mjs';
import { picture } from './venue.mjs';

const INSTRUMENTS = [
  ...['NPN_ZAR', 'SBK_ZAR', 'AGL_ZAR', 'BHG_ZAR', 'SOL_ZAR', 'MTN_ZAR', 'FSR_ZAR', 'AUC_ZAR'],
  ...['BTC_USDC', 'ETH_USDC', 'BTC-PERPETUAL'],
];

let venue, browser, page;

withVenue(async (stage) => {
  ({ venue, browser } = stage);
  page = await browser.newPage();
});

test('the page loads and is live', async () => {
  await page.goto(`${venue.url}/#NPN_ZAR`);
  await page.waitForSelector('[data-phase="live"]');
});

test('it lists the instruments of the demo', async () => {
  await page.waitForSelector('nav a[href="#NPN_ZAR"]');
  const links = await page.$$eval('nav[aria-label="Instruments"] a', (all) =>
    all.map((a) => a.getAttribute('href')),
  );
  assert.deepEqual(links.map((href) => href.slice(1)).sort(), INSTRUMENTS.toSorted());
});

test('the book has two sides and moves', bookIsMoving);

test('trades appear', async () => {
  await page.waitForSelector('tr[data-sequence]');
  const newest = () => Number(document.querySelector('tr[data-sequence]')?.dataset.sequence ?? 0);
  const first = await page.evaluate(newest);
  await page.waitForFunction(
    (seen) => Number(document.querySelector('tr[data-sequence]')?.dataset.sequence) > seen,
    first,
  );
});

test('keys move the selection, and the address follows', async () => {
  const current = () => page.getAttribute('nav a[aria-current]', 'href');
  const start = await current();
  await page.keyboard.press('j');
  await page.waitForFunction((href) => location.hash !== href, start);
  assert.equal(await current(), new URL(page.url()).hash);
  await page.waitForSelector('[data-side="bid"][data-price]');
  await page.keyboard.press('k');
  await page.waitForFunction((href) => location.hash === href, start);
  await bookIsMoving();
});

test('nothing complained, and no book broke', async () => {
  assert.deepEqual(browser.complaints, []);
  await page.waitForSelector('text=Sequence breaks 0');
  await picture(page, 'market');
});

test('a killed venue shows at once, with no book left standing', async () => {
  await venue.kill();
  await page.waitForSelector('[data-phase="reconnecting"]');
  assert.equal(await page.locator('[data-side][data-price]').count(), 0);
});

test('a venue started again is live and moving again', async () => {
  await venue.start();
  await page.waitForSelector('[data-phase="live"]');
  await bookIsMoving();
});

test('no request left 127.0.0.1', () => {
  assert.ok(browser.addresses.some((address) => address === `ws://127.0.0.1:${venue.port}/ws/api/v2`));
  // Data URLs load nothing from the network.
  const travelled = browser.addresses
    .map((address) => new URL(address))
    .filter((url) => !['data:', 'blob:'].includes(url.protocol));
  assert.deepEqual(travelled.filter((url) => url.hostname !== '127.0.0.1').map(String), []);
});

async function bookIsMoving() {
  await page.waitForSelector('[data-side="bid"][data-price]');
  await page.waitForSelector('[data-side="ask"][data-price]');
  const before = await page.evaluate(readBook);
  await page.waitForFunction(
    (text) =>
      [...document.querySelectorAll('[data-side]')].map((rung) => rung.textContent).join('|') !== text,
    before,
  );
}

function readBook() {
  return [...document.querySelectorAll('[data-side]')].map((rung) => rung.textContent).join('|');
}
