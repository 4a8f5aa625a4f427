// An operator runs simulations on the page.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { SIZES, judge } from './axe.mjs';
import { withVenue } from './stage.mjs';
import { Api, BINARY, download, logIn, picture, until } from './venue.mjs';

const INTERVALS = 'Times between events, share of at least this size';
const TYPES = 'Events by type, a second over all instruments';
const VOLUMES = 'Traded lots by type of the aggressive order';
const CHARTS = [
  'Price',
  'Spread in ticks',
  'Lots at the best prices',
  'Depth, mean lots by distance in ticks',
  'Traded lots',
  VOLUMES,
  TYPES,
  INTERVALS,
  'Time of a command in the engine, commands below each bound',
];

let venue, browser, page, api;

// Without a flow the page has nothing else to draw.
withVenue(
  async (stage) => {
    ({ venue, browser } = stage);
    page = await logIn(browser, venue, 'NPN_ZAR', 'demo-operator');
    api = stage.api = await Api.open(venue, 'demo-operator');
    await page.getByRole('tab', { name: 'Simulation' }).click();
  },
  ['0', '127.0.0.1', ['--no-flow']],
);

const form = () => page.getByRole('region', { name: 'New simulation' });
const field = (name) => form().getByLabel(name);
const newest = async () => (await api.call('private/pitwire_get_simulations'))[0];
const state = (id) => page.locator(`[data-run="${id}"] [data-of="state"]`);
const said = (text) => page.locator('[data-good]', { hasText: text }).waitFor();

test('a member sees no simulations', async () => {
  const member = await logIn(browser, venue, 'NPN_ZAR', 'demo-a');
  assert.equal(await member.getByRole('tab', { name: 'Simulation' }).count(), 0);
  await member.close();
});

test('the form offers the presets and the flows of the command line', async () => {
  const options = (name) => field(name).locator('option').allTextContents();
  const flows = spawnSync(BINARY, ['flow', 'list'], { encoding: 'utf8' }).stdout.trim().split('\n');
  const names = flows.map((line) => line.split(' ')[0]);
  assert.deepEqual((await options('Order flow')).sort(), [...names, 'a file', 'own parameters'].sort());
  const refused = spawnSync(BINARY, ['sim', '--preset', 'none', '--seed', '1'], { encoding: 'utf8' }).stderr;
  const presets = /possible values: ([^\]]+)/.exec(refused)[1].split(', ');
  assert.deepEqual(await options('Preset'), presets);
});

test('a run ends with charts, and its tape is that of the command line', async () => {
  await field('Preset').selectOption('demo');
  await field('Seed').fill('11');
  await field('Duration in venue time').fill('60');
  await field('Unit').selectOption('seconds');
  await field('Order flow').selectOption('market');
  await field('Instruments').fill('BTC_USDC, NPN_ZAR');
  await field('Clients per instrument').fill('16');
  await form().getByRole('button', { name: 'Start' }).click();
  await said('The simulation has started');
  await until(async () => (await newest())?.state === 'done', 'the end of the run');
  const run = await newest();
  await page.waitForSelector('[data-chart="Price"] .line[d^="M"]');
  const charts = await page.$$eval('[data-chart]', (all) => all.map((one) => one.dataset.chart));
  assert.deepEqual(charts, CHARTS);
  for (const chart of charts) await page.waitForSelector(`[data-chart="${chart}"] :is(.line[d^="M"], .bar)`);
  const drawn = (chart, part) => page.locator(`[data-chart="${chart}"] ${part}`).count();
  assert.equal(await drawn(INTERVALS, '.line[d^="M"]'), 2, 'the run and the theory');
  assert.equal(await drawn(TYPES, '.mark'), await drawn(TYPES, '.bar'), 'each type has its theory');
  assert.ok((await drawn(VOLUMES, '.bar')) > 2, 'types that trade, and other aggressors');
  assert.equal(await drawn(VOLUMES, '.mark'), 0, 'theory says nothing about lots');
  await picture(page, 'simulation');
  const options = await page
    .getByRole('combobox', { name: /^Instrument/ })
    .locator('option')
    .allTextContents();
  assert.deepEqual(options.map((text) => text.split(',')[0]).sort(), ['BTC_USDC', 'NPN_ZAR']);

  const [program, ...shown] = run.command.split(' ');
  assert.equal(program, 'pitwire');
  const ended = spawnSync(BINARY, [...shown, '--json'], { encoding: 'utf8' });
  assert.equal(ended.status, 0, ended.stderr);
  assert.equal(JSON.parse(ended.stdout).tape_hash, run.result.tape_hash);
  assert.ok((await page.textContent('main')).includes(run.result.tape_hash));
  await judge(page, 'simulation', Object.keys(SIZES));
});

test('the report and the tables are saved', async () => {
  assert.match(await download(page, 'report.html'), /^<!DOCTYPE html>/i);
  const report = JSON.parse(await download(page, 'report.json'));
  assert.equal(report.instruments.length, 2);
  await page.getByRole('button', { name: 'Export CSV' }).click();
  await page.waitForSelector('[data-file="csv/trades.csv"]');
  const trades = (await download(page, 'csv/trades.csv')).trim().split('\n');
  assert.equal(trades.length - 1, (await newest()).result.trades);
  await page.getByRole('button', { name: 'Export Parquet' }).click();
  await page.waitForSelector('[data-file="parquet/trades.parquet"]');
  assert.match(await download(page, 'parquet/trades.parquet'), /^PAR1/);
});

test('a run is stopped, and its successor needs no wait', async () => {
  await field('Duration in venue time').fill('24');
  await field('Unit').selectOption('hours');
  await field('Instruments').fill('');
  await form().getByRole('button', { name: 'Start' }).click();
  const running = await until(async () => {
    const run = await newest();
    return run.state === 'running' && run.done > 0 ? run : null;
  }, 'a running simulation');
  await page.getByLabel(`Progress of simulation ${running.simulation_id}`).waitFor();
  assert.ok(await form().getByRole('button', { name: 'Start' }).isDisabled());
  await assert.rejects(api.call('private/pitwire_start_simulation', { seconds: 1 }), (error) => {
    assert.equal(error.data.name, 'simulation_running');
    return error.data.remedy.includes('pitwire_stop_simulation');
  });
  await form().getByRole('button', { name: 'Stop' }).click();
  await until(
    async () => (await state(running.simulation_id).textContent()).trim() === 'stopped',
    'the stop',
  );
});

test('a run that cannot start says why', async () => {
  await field('Duration in venue time').fill('1');
  await field('Instruments').fill('ABSENT_ZAR');
  await form().getByRole('button', { name: 'Start' }).click();
  const alert = page.getByRole('alert');
  await alert.waitFor();
  assert.match(await alert.textContent(), /the preset demo has no instrument "ABSENT_ZAR" \(give some of /);
  await field('Instruments').fill('');
});

test('the editor shows the radius, refuses an unstable process, and its run follows theory', async () => {
  await field('Order flow').selectOption('own parameters');
  const editor = page.getByRole('region', { name: 'Hawkes flow' });
  const radius = () => editor.locator('[data-of="radius"]').textContent();
  assert.equal(await radius(), '0.2500');
  await judge(page, 'simulation-editor', Object.keys(SIZES));
  await page.setViewportSize({ width: 390, height: 844 });
  for (const control of await editor.locator('.sheet :is(input, select, button)').all()) {
    await control.scrollIntoViewIfNeeded();
    const seen = await control.evaluate((one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect();
      const middle = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return left >= 0 && right <= innerWidth && right - left >= 64 && one.contains(middle);
    });
    assert.ok(seen, `covered or cut on a phone: ${await control.getAttribute('aria-label')}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  const jump = editor.getByLabel('Kernel 1: jump of take after take');
  await jump.fill('4');
  assert.equal(await radius(), '1.0000');
  const start = form().getByRole('button', { name: 'Start' });
  assert.ok(await start.isDisabled());
  await jump.fill('');
  assert.match(await editor.getByRole('status').textContent(), /A jump of kernel 1 is no number/);
  assert.ok(await start.isDisabled());
  await jump.fill('2');
  assert.equal(await radius(), '0.5000');
  await editor.getByRole('button', { name: 'Add a type' }).click();
  await editor.getByRole('button', { name: 'Add a kernel' }).click();
  assert.equal(await radius(), '0.5000');
  await field('Duration in venue time').fill('120');
  await field('Unit').selectOption('seconds');
  await field('Instruments').fill('BTC_USDC');
  await start.click();
  const done = await until(async () => {
    const run = await newest();
    return run.state === 'done' && run.flow === 'flow.toml' ? run : null;
  }, 'the run of the edited flow');
  const report = JSON.parse(await download(page, 'report.json'));
  assert.ok(Math.abs(report.flow.branching_ratio - 0.5) < 1e-6);
  assert.deepEqual(
    report.flow.types.map((one) => one.type),
    ['take', 'rest', 'leave', 'type_4'],
  );
  assert.match(await download(page, 'flow.toml'), /^\[\[flow\]\]/);
  assert.ok(done.result.trades > 0);
});

test('the refusal of the venue is final', async () => {
  const flow_file = (jump) =>
    `[[flow]]\n[[flow.type]]\nname = "a"\nbase_per_s = 1.0\norder = "join"\n` +
    `[[flow.kernel]]\njump_per_s = [[${jump}]]\ndecay_per_s = 1.0\n`;
  for (const [jump, reason] of [
    ['1.0', /spectral radius 1\.000/],
    ['nan', /NaN, expected a finite number/],
  ]) {
    const { simulation_id } = await api.call('private/pitwire_start_simulation', {
      seconds: 1,
      flow_file: flow_file(jump),
    });
    const run = await until(async () => {
      const one = await newest();
      return one.simulation_id === simulation_id && one.state === 'failed' ? one : null;
    }, 'the refusal');
    assert.match(run.error, reason);
    await until(
      async () => (await api.call('private/pitwire_get_simulations'))[0].state === 'failed',
      'rest',
    );
  }
});

test('runs are deleted after a question', async () => {
  const { simulation_id } = await newest();
  await page.getByRole('button', { name: `Delete simulation ${simulation_id}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await page.locator(`[data-run="${simulation_id}"]`).waitFor({ state: 'detached' });
  assert.notEqual((await newest()).simulation_id, simulation_id);
});

test('the page stays clean: no errors', () => assert.deepEqual(browser.complaints, []));
