// The trading client of clients/typescript in a browser.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';
import { withVenue } from './stage.mjs';
import { Api, until } from './venue.mjs';

const SOURCES = join(import.meta.dirname, '../../clients/typescript/src');
const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ES2022,
  verbatimModuleSyntax: true,
};

let venue, browser, api, url;

withVenue(
  async (stage) => {
    ({ venue, browser } = stage);
    url = `ws://${venue.host}:${venue.port}/ws/api/v2`;
    api = stage.api = await Api.open(venue, 'demo-a');
  },
  ['0', '127.0.0.1', ['--no-flow']],
);

/**
 * Opens a page and serves the client below `/client/` of its origin. The page itself comes from a
 * server on this machine: the browser refuses a connection to this machine from any other page.
 */
async function openPage(address) {
  const page = await browser.newPage();
  await page.route(`${new URL(address).origin}/client/**`, async (route) => {
    const name = new URL(route.request().url()).pathname.slice('/client/'.length);
    const source = await readFile(join(SOURCES, name.replace(/\.js$/, '.ts')), 'utf8');
    const body = ts.transpileModule(source, { compilerOptions: OPTIONS }).outputText;
    return route.fulfill({ contentType: 'text/javascript', body });
  });
  await page.goto(address);
  return page;
}

test('a page of the venue trades, follows a book, and misses no notice of a cut', async () => {
  const page = await openPage(`${venue.url}/healthz`);
  const states = await page.evaluate(async (url) => {
    const { Venue } = await import('/client/index.js');
    window.seen = [];
    window.gate = Promise.resolve();
    const openSocket = async (address) => {
      await window.gate;
      return (window.socket = new WebSocket(address));
    };
    const login = { clientId: 'demo-a', clientSecret: 'demo-a-secret' };
    window.client = await Venue.connect({ url, ...login, firstPauseMs: 1, openSocket });
    await window.client.followOwn({
      order: ({ price, order_state }) => window.seen.push([price, order_state]),
      restarted: ({ reason }) => window.seen.push(reason),
    });
    ({ book: window.book } = await window.client.followBook('NPN_ZAR', () => {}, 'raw'));
    const bid = { side: 'buy', instrument_name: 'NPN_ZAR', amount: 3, price: 3000 };
    const { order } = await window.client.place(bid);
    const amended = await window.client.amend(order.order_id, { amount: 2, price: 3001 });
    const cancelled = await window.client.cancel(order.order_id);
    return [order.order_state, amended.order.amount, cancelled.order_state];
  }, url);
  assert.deepEqual(states, ['open', 2, 'cancelled']);

  // The client cannot connect again before the venue has the next order.
  await page.evaluate(() => {
    window.gate = new Promise((open) => (window.openGate = open));
    window.socket.close();
  });
  await api.call('private/buy', { instrument_name: 'NPN_ZAR', amount: 1, price: 2990 });
  await page.evaluate(() => window.openGate());
  await until(() => page.evaluate(() => window.book.bids.length === 1), 'the bid in the book');
  await until(() => page.evaluate(() => window.seen.length >= 4), 'the notice of the bid');
  assert.deepEqual(await page.evaluate(() => [window.seen, window.book.bids]), [
    [
      [3000, 'open'],
      [3001, 'open'],
      [3001, 'cancelled'],
      [2990, 'open'],
    ],
    [[2990, 1]],
  ]);
  await page.close();
});

test('a page of another origin gets no connection', async () => {
  const elsewhere = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>another page</title>');
  }).listen(0, venue.host);
  await once(elsewhere, 'listening');
  const page = await openPage(`http://${venue.host}:${elsewhere.address().port}/`);
  const found = await page.evaluate(async (url) => {
    const { ConnectionFailed, Venue } = await import('/client/index.js');
    return Venue.connect({ url }).catch((error) => error instanceof ConnectionFailed);
  }, url);
  assert.equal(found, true);
  await page.close();
  elsewhere.close();
});

test('a page that cannot sign a login says so before it connects', async () => {
  // No name but those of this machine is a secure context without TLS.
  await browser.context.route('http://member.test/', (route) =>
    route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>a page</title>' }),
  );
  const page = await openPage('http://member.test/');
  const found = await page.evaluate(async (url) => {
    const { ConnectionFailed, Venue } = await import('/client/index.js');
    const login = { clientId: 'demo-a', clientSecret: 'demo-a-secret' };
    const error = await Venue.connect({ url, ...login }).catch((error) => error);
    return [window.isSecureContext, error instanceof ConnectionFailed, error.message];
  }, url);
  const message = 'this page cannot sign a login; load it over https, or from localhost';
  assert.deepEqual(found, [false, true, message]);
  await page.close();
});
