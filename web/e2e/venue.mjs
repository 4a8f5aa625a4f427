// Helpers of the page tests: a venue, a browser and direct calls to the venue.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { WebSocket } from 'ws';

export const BINARY = process.env.PITWIRE_BIN ?? join(import.meta.dirname, '../../target/release/pitwire');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
/** Serves the page from this folder instead of the built-in one, for work on the page. */
const PAGE = process.env.PITWIRE_PAGE;
export const PATIENCE = Number(process.env.E2E_PATIENCE ?? 20_000);

/** A venue with the demo preset on a free port, in a temporary directory. */
export class Venue {
  #child;

  /** A venue without a past, unless `warmUp` names a length such as `6h`. */
  static async create(warmUp = '0', host = '127.0.0.1', options = []) {
    const venue = new Venue();
    venue.warmUp = warmUp;
    venue.host = host;
    venue.options = options;
    venue.home = await mkdtemp(join(tmpdir(), 'pitwire-e2e-'));
    venue.port = await freePort();
    venue.url = `http://${host}:${venue.port}`;
    await venue.start();
    return venue;
  }

  async start() {
    const ready = join(this.home, 'ready.json');
    const address = `${this.host}:${this.port}`;
    await rm(ready, { force: true });
    const flags = [
      ...['--preset', 'demo', '--warm-up', this.warmUp],
      '--data',
      join(this.home, 'data'),
      '--http',
      address,
      '--ready-file',
      ready,
      ...(this.host === '127.0.0.1' ? [] : ['--demo-credentials']),
      ...this.options,
    ];
    // A script replaces the venue if its name says so.
    const command = BINARY.endsWith('.mjs') ? [process.execPath, BINARY] : [BINARY];
    const child = spawn(command[0], [...command.slice(1), 'up', ...flags], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
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
        assert.equal(JSON.parse(text).http, address);
        return;
      }
      assert.ok(Date.now() < deadline, `the venue was not ready in time\n${words}`);
    }
  }

  async kill() {
    const child = this.#child;
    if (!child || child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  async end() {
    await this.kill();
    await rm(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/** A Chromium that records the errors and requests of its pages. */
export async function openBrowser(venue, options = {}) {
  const context = await chromium.launchPersistentContext(join(venue.home, 'browser'), {
    executablePath: CHROMIUM,
    viewport: { width: 1440, height: 900 },
    colorScheme: 'dark',
    ...options,
    args: [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      // A page served by the test has a foreign origin.
      ...(PAGE ? ['--disable-features=LocalNetworkAccessChecks'] : []),
    ],
  });
  const complaints = [];
  const addresses = [];
  context.on('request', (request) => addresses.push(request.url()));
  if (PAGE) await context.route(`${venue.url}/**`, fromFolder);
  const newPage = async () => {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('websocket', (socket) => addresses.push(socket.url()));
    return page;
  };
  return { context, newPage, complaints, addresses };
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

async function fromFolder(route) {
  const path = new URL(route.request().url()).pathname;
  const file = join(PAGE, path === '/' ? 'index.html' : path);
  const body = await readFile(file).catch(() => null);
  // The venue answers paths that are not files of the page, such as /metrics.
  if (body === null) return route.continue();
  await route.fulfill({ body, contentType: TYPES[extname(file)] ?? 'application/octet-stream' });
}

// A new page on one market, logged in.
export async function logIn(browser, venue, name, account) {
  const page = await browser.newPage();
  await page.goto(`${venue.url}/#${name}`);
  await page.waitForSelector('[data-phase="live"]');
  await page.getByRole('button', { name: new RegExp(`^${account}`) }).click();
  await page.waitForSelector(`[data-account="${account}"]`);
  return page;
}

/** The same API without the page. Tests compare its answers with the page. */
export class Api {
  #socket;
  #waiting = new Map();
  #next = 1;
  notices = [];

  static async open(venue, account) {
    const api = new Api();
    api.#socket = new WebSocket(`ws://${venue.host}:${venue.port}/ws/api/v2`);
    api.#socket.on('message', (text) => api.#receive(JSON.parse(text)));
    await once(api.#socket, 'open');
    if (account) {
      const grant = {
        grant_type: 'client_credentials',
        client_id: account,
        client_secret: `${account}-secret`,
      };
      await api.call('public/auth', grant);
    }
    return api;
  }

  call(method, params = {}) {
    const id = this.#next++;
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  close() {
    this.#socket.terminate();
  }

  #receive(frame) {
    if (frame.method === 'subscription') this.notices.push(frame.params);
    const waiting = this.#waiting.get(frame.id);
    this.#waiting.delete(frame.id);
    if (frame.error) waiting?.reject(Object.assign(new Error(frame.error.message), frame.error));
    else waiting?.resolve(frame.result);
  }
}

/** Saves a file of the simulation that the page shows, and returns its text. */
export async function download(page, name) {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.locator(`[data-file="${name}"]`).click(),
  ]);
  return readFile(await file.path(), 'utf8');
}

/** Parses a number that the page shows as text. */
export function number(text) {
  return Number(text.replaceAll(',', '').replace('−', '-').trim());
}

/** Repeats a question until the answer passes. */
export async function until(question, what) {
  for (const deadline = Date.now() + PATIENCE; ; await sleep(50)) {
    const answer = await question();
    if (answer) return answer;
    assert.ok(Date.now() < deadline, `waited in vain: ${what}`);
  }
}

/** Saves a screenshot if SCREENSHOTS names a folder. */
export async function picture(page, name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
