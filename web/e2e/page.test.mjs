// The page in a real browser against a real venue, which is killed and started again under it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const BINARY = process.env.PITWIRE_BIN ?? join(import.meta.dirname, '../../target/release/pitwire');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const PATIENCE = 20_000;

const INSTRUMENTS = [
  ...['NPN_ZAR', 'SBK_ZAR', 'AGL_ZAR', 'BHG_ZAR', 'SOL_ZAR', 'MTN_ZAR', 'FSR_ZAR', 'AUC_ZAR'],
  ...['BTC_USDC', 'ETH_USDC', 'BTC-PERPETUAL'],
];

let home;
let port;
let venue;
let browser;
let page;
const complaints = [];
const addresses = [];

before(async () => {
  home = await mkdtemp(join(tmpdir(), 'pitwire-e2e-'));
  port = await freePort();
  await startVenue();
  browser = await chromium.launchPersistentContext(join(home, 'browser'), {
    executablePath: CHROMIUM,
    viewport: { width: 1440, height: 900 },
    colorScheme: 'dark',
    args: [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  });
  page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('websocket', (socket) => addresses.push(socket.url()));
  browser.on('request', (request) => addresses.push(request.url()));
});

after(async () => {
  await browser?.close();
  await killVenue();
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
});

test('the page loads and is live', async () => {
  await page.goto(`http://127.0.0.1:${port}/#NPN_ZAR`);
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
  assert.deepEqual(complaints, []);
  await page.waitForSelector('text=Sequence breaks 0');
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });
});

test('a killed venue shows at once, with no book left standing', async () => {
  await killVenue();
  await page.waitForSelector('[data-phase="reconnecting"]');
  assert.equal(await page.locator('[data-side][data-price]').count(), 0);
});

test('a venue started again is live and moving again', async () => {
  await startVenue();
  await page.waitForSelector('[data-phase="live"]');
  await bookIsMoving();
});

test('no request left 127.0.0.1', () => {
  assert.ok(addresses.some((address) => address === `ws://127.0.0.1:${port}/ws/api/v2`));
  // Pictures and the like that are already in the page go nowhere.
  const travelled = addresses
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

async function startVenue() {
  const ready = join(home, 'ready.json');
  await rm(ready, { force: true });
  const flags = [
    '--preset',
    'demo',
    '--data',
    join(home, 'data'),
    '--http',
    `127.0.0.1:${port}`,
    '--ready-file',
    ready,
  ];
  const child = spawn(BINARY, ['up', ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  venue = child;
  let words = '';
  let failure = null;
  child.stderr.on('data', (chunk) => (words = (words + chunk).slice(-4000)));
  child.on('error', (error) => (failure = error));
  child.on(
    'exit',
    (code, signal) => (failure ??= new Error(`the venue ended (${signal ?? code})\n${words}`)),
  );
  for (const deadline = Date.now() + PATIENCE; ; await sleep(50)) {
    if (failure) throw failure;
    const text = await readFile(ready, 'utf8').catch(() => null);
    if (text !== null) {
      assert.equal(JSON.parse(text).http, `127.0.0.1:${port}`);
      return;
    }
    assert.ok(Date.now() < deadline, `the venue was not ready in time\n${words}`);
  }
}

async function killVenue() {
  if (!venue || venue.pid === undefined || venue.exitCode !== null || venue.signalCode !== null) return;
  const gone = once(venue, 'exit');
  venue.kill('SIGKILL');
  await gone;
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
