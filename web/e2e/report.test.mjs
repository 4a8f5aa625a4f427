// The report of a simulated run: in both themes, on a phone, and printed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { judge } from './axe.mjs';
import { BINARY, openBrowser, picture } from './venue.mjs';

let home;
let browser;
let page;

before(async () => {
  home = await mkdtemp(join(tmpdir(), 'pitwire-e2e-'));
  const run = join(home, 'run');
  const ended = spawnSync(BINARY, ['sim', '--seed', '7', '--horizon', '120', '--out', run, '--report']);
  assert.equal(ended.status, 0, String(ended.stderr));
  browser = await openBrowser({ home });
  page = await browser.newPage();
  await page.goto(String(pathToFileURL(join(run, 'report.html'))));
});

after(async () => {
  await browser?.context.close();
  if (home) await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
});

const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test('the report follows the theme of the system', async () => {
  assert.equal(await background(), 'rgb(20, 24, 31)');
  await page.emulateMedia({ colorScheme: 'light' });
  assert.equal(await background(), 'rgb(255, 255, 255)');
  await picture(page, 'report-light');
  await page.emulateMedia({ colorScheme: 'dark' });
});

test('axe finds nothing in either theme', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await judge(page, `report-${colorScheme}`, ['desktop', 'phone']);
  }
});

test('on a phone no table of the facts is cut off', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  const widths = await page.evaluate(() => {
    const tables = [document.documentElement, ...document.querySelectorAll('table.facts')];
    return tables.map((one) => [one.scrollWidth, one.clientWidth]);
  });
  assert.equal(widths.length, 2);
  for (const [needed, available] of widths) assert.ok(needed <= available, `${needed} of ${available} px`);
  await picture(page, 'report-phone');
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('paper is white, shows every instrument, and repeats the head of a table', async () => {
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  assert.equal(await background(), 'rgb(255, 255, 255)');
  // The details open only for the printer.
  assert.ok(await page.locator('details:not([open])').count());
  await page.pdf({ format: 'A4' });
  assert.equal(await page.locator('details:not([open])').count(), 0);
  const [table, head] = await page.evaluate(() => {
    const style = (name) => getComputedStyle(document.querySelector(name));
    return [style('table.facts').breakInside, style('table.facts thead').display];
  });
  assert.deepEqual([table, head], ['auto', 'table-header-group']);
});
