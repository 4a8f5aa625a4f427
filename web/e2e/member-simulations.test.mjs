// A member runs simulations of its own on the page of a venue that allows it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withVenue } from './stage.mjs';
import { Api, download, logIn, picture, until } from './venue.mjs';

let venue, browser, page, api;

withVenue(
  async (stage) => {
    ({ venue, browser } = stage);
    page = await logIn(browser, venue, 'NPN_ZAR', 'demo-a');
    api = stage.api = await Api.open(venue, 'demo-a');
    await page.getByRole('tab', { name: 'Simulation' }).click();
  },
  ['0', '127.0.0.1', ['--no-flow', '--member-simulations']],
);

const form = (of = page) => of.getByRole('region', { name: 'New simulation' });
const field = (name) => form().getByLabel(name);
const newest = async () => (await api.call('private/pitwire_get_simulations'))[0];
const row = (id, of = page) => of.locator(`[data-run="${id}"]`);

async function run(seed) {
  await field('Seed').fill(String(seed));
  await form().getByRole('button', { name: 'Start' }).click();
  return until(async () => {
    const one = await newest();
    return one?.seed === seed && one.state === 'done' ? one : null;
  }, `the end of the run with seed ${seed}`);
}

const path = () => page.locator('[data-chart="Price"] .line').getAttribute('d');

test('a member starts a run and sees its charts', async () => {
  await field('Duration in venue time').fill('60');
  await field('Unit').selectOption('seconds');
  await field('Instruments').fill('BTC_USDC');
  const done = await run(5);
  assert.equal(done.member, 'demo-a');
  await page.waitForSelector('[data-chart="Price"] .line[d^="M"]');
  await picture(page, 'member-simulation');
  assert.match(await download(page, 'report.html'), /^<!DOCTYPE html>/i);
  await page.getByRole('button', { name: 'Export CSV' }).click();
  await page.waitForSelector('[data-file="csv/trades.csv"]');
  const trades = (await download(page, 'csv/trades.csv')).trim().split('\n');
  assert.equal(trades.length - 1, done.result.trades);
});

test('the charts of an earlier run come back after a new page', async () => {
  const [first, drawn] = [await newest(), await path()];
  const second = await run(6);
  await until(async () => (await path()) !== drawn, 'the charts of the second run');
  assert.notEqual(second.result.tape_hash, first.result.tape_hash);
  await page.reload();
  await page.getByRole('tab', { name: 'Simulation' }).click();
  await row(second.simulation_id).waitFor();
  await page.getByRole('button', { name: `Show simulation ${first.simulation_id}` }).click();
  await page.waitForSelector('[data-chart="Price"] .line[d^="M"]');
  assert.equal(await path(), drawn);
  assert.ok((await page.textContent('main')).includes(first.result.tape_hash));
});

test('another member sees none of them, and an operator sees whose they are', async () => {
  const other = await logIn(browser, venue, 'NPN_ZAR', 'demo-b');
  await other.getByRole('tab', { name: 'Simulation' }).click();
  await other.getByText('No simulation has run here.').waitFor();
  assert.equal(await other.locator('[data-run]').count(), 0);
  await other.close();
  const { simulation_id } = await newest();
  const stranger = await Api.open(venue, 'demo-b');
  await assert.rejects(
    stranger.call('private/pitwire_get_simulation_file', { simulation_id, name: 'report.json' }),
    (error) => error.data.name === 'unknown_simulation',
  );
  stranger.close();
  const operator = await logIn(browser, venue, 'NPN_ZAR', 'demo-operator');
  await operator.getByRole('tab', { name: 'Simulation' }).click();
  await row(simulation_id, operator).getByText('by demo-a').waitFor();
  await operator.close();
});

test('a slow run shows its progress and is stopped', async () => {
  await field('Duration in venue time').fill('24');
  await field('Unit').selectOption('hours');
  await field('Instruments').fill('BTC_USDC');
  await field('Speed, × real time').fill('10');
  await form().getByRole('button', { name: 'Start' }).click();
  const running = await until(async () => {
    const one = await newest();
    return one.state === 'running' && one.done > 0 ? one : null;
  }, 'a running simulation');
  assert.equal(running.speed, 10);
  assert.ok(running.command.includes(' --speed=10'), running.command);
  const elapsed = Date.now() - running.started_ms;
  assert.ok(running.done / 1e6 <= 10 * elapsed + 100, `${running.done} ns in ${elapsed} ms`);
  await page.getByLabel(`Progress of simulation ${running.simulation_id}`).waitFor();
  await form().getByRole('button', { name: 'Stop' }).click();
  await row(running.simulation_id).getByText('stopped').waitFor();
});

test('the page stays clean: no errors', () => assert.deepEqual(browser.complaints, []));
