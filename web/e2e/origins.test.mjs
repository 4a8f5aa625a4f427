// A page of another port of the venue's host gets no token and changes nothing. On loopback the
// browser says where a page comes from; on other addresses without TLS it does not.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Api, Venue, openBrowser } from './venue.mjs';

const LAN = '10.77.0.1';
const HOST = process.env.E2E_HOST ?? '127.0.0.1';
const KILL = { scope: 'venue', reason: 'a page' };
const LOGIN = {
  grant_type: 'client_credentials',
  client_id: 'demo-operator',
  client_secret: 'demo-operator-secret',
};

let venue;
let browser;
let api;
let elsewhere;
let page;
let token;

before(async () => {
  venue = await Venue.create('0', HOST);
  elsewhere = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.setHeader('Referrer-Policy', 'no-referrer');
    response.end('<!doctype html><title>another page</title><body>');
  }).listen(0, HOST);
  await once(elsewhere, 'listening');
  browser = await openBrowser(venue);
  api = await Api.open(venue);
  token = (await api.call('public/auth', LOGIN)).access_token;
  page = await browser.newPage();
  await page.goto(`http://${HOST}:${elsewhere.address().port}/`);
});

after(async () => {
  api?.close();
  await browser?.context.close();
  elsewhere?.close();
  await venue?.end();
});

const isKilled = async () => (await api.call('private/pitwire_status')).venue_killed;
const url = (method, params) => `${venue.url}/api/v2/${method}?${new URLSearchParams(params)}`;

/** The text of a response, or 'blocked' if the browser withholds it. */
const read = (address, options = {}) =>
  page.evaluate(
    ([address, options]) =>
      fetch(address, options).then(
        (response) => response.text(),
        () => 'blocked',
      ),
    [address, options],
  );

test('another page reads public data', async () => {
  assert.match(await read(url('public/get_time', {})), /"result"/);
});

test('another page gets no token', async () => {
  assert.equal(await read(url('public/auth', LOGIN)), 'blocked');
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'public/auth', params: LOGIN });
  const plain = { method: 'POST', body, headers: { 'Content-Type': 'text/plain' } };
  for (const path of ['', '/public/auth']) {
    assert.equal(await read(`${venue.url}/api/v2${path}`, plain), 'blocked', path);
  }
  // Under a shared path the page may read that it was refused.
  assert.match(await read(`${venue.url}/api/v2/public/test`, plain), /"foreign_origin"/);
});

test('another page kills nothing with an image', async () => {
  await page.evaluate(
    (address) => {
      const image = document.createElement('img');
      const ended = new Promise((resolve) => (image.onload = image.onerror = resolve));
      image.src = address;
      document.body.append(image);
      return ended;
    },
    url('private/pitwire_kill', { ...KILL, access_token: token }),
  );
  assert.equal(await isKilled(), false);
});

test('another page kills nothing with a form', async () => {
  const call = { method: 'private/pitwire_kill', params: { ...KILL, access_token: token } };
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, ...call });
  // A form of plain text sends `name=value`; the equals sign falls into a value.
  const [name, value] = [`${text.slice(0, -1)},"x":"`, '"}'];
  await page.evaluate(
    ([action, name, value]) => {
      const frame = document.createElement('iframe');
      frame.name = 'sink';
      const ended = new Promise((resolve) => (frame.onload = resolve));
      document.body.append(frame);
      const form = Object.assign(document.createElement('form'), { action, method: 'post', target: 'sink' });
      form.enctype = 'text/plain';
      form.append(Object.assign(document.createElement('input'), { name, value }));
      document.body.append(form);
      form.submit();
      return ended;
    },
    [`${venue.url}/api/v2`, name, value],
  );
  assert.equal(await isKilled(), false);
});

test('another page kills nothing with the header', async () => {
  const headers = { Authorization: `Bearer ${token}` };
  assert.equal(await read(url('private/pitwire_kill', KILL), { headers }), 'blocked');
  assert.equal(await isKilled(), false);
});

test("the venue's own page does, with the header only", async () => {
  await page.goto(venue.url);
  assert.match(await read(url('private/pitwire_kill', { ...KILL, access_token: token })), /token_in_query/);
  assert.equal(await isKilled(), false);
  const headers = { Authorization: `Bearer ${token}` };
  assert.match(await read(url('private/pitwire_kill', KILL), { headers }), /"cancelled"/);
  assert.equal(await isKilled(), true);
});

// The same tests again in a network namespace whose only address is not a loopback one.
if (process.env.E2E_HOST === undefined) {
  test('the same on a LAN address', async (t) => {
    const setUp = `ip link set lo up && ip addr add ${LAN}/24 dev lo`;
    const code = async (command, env = process.env) => {
      const child = spawn('unshare', ['-rn', 'sh', '-c', command], {
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let text = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (text += part));
      const ended = await once(child, 'exit').catch((error) => [String(error)]);
      return { ended: ended[0], text };
    };
    if ((await code(setUp)).ended !== 0) return t.skip('this machine gives no network namespace');
    const env = { ...process.env, E2E_HOST: LAN };
    delete env.NODE_TEST_CONTEXT;
    const inner = await code(`${setUp} && exec "${process.execPath}" --test "${import.meta.filename}"`, env);
    assert.equal(inner.ended, 0, inner.text);
    assert.match(inner.text, /pass 6/);
  });
}
