// Judges a page with axe.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { picture } from './venue.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const THEMES = ['dark', 'light'];
export const SIZES = { desktop: [1440, 900], tablet: [820, 1180], phone: [390, 844] };

/** Runs in the page. A colour on its way from one theme to the other belongs to neither. */
async function endTransitions() {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  // A new size takes one frame to be observed and one to be drawn.
  await frame();
  await frame();
  const running = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
  // The end of one starts others below it, which inherit its colour.
  for (let left = running(); left.length > 0; left = running()) left.forEach((one) => one.finish());
}

/** Judges what is on screen in both themes and, where `sizes` says so, at other sizes. */
export async function judge(target, view, sizes = ['desktop']) {
  for (const size of sizes)
    for (const theme of THEMES) {
      const [width, height] = SIZES[size];
      await target.setViewportSize({ width, height });
      await target.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
      // Data of a lost connection is greyed out on purpose; on a busy machine it takes a moment.
      await target.waitForFunction(() => !document.querySelector('.stale'));
      await target.evaluate(endTransitions);
      // The content security policy forbids foreign scripts, but not evaluated ones.
      await target.evaluate(`${AXE};0`);
      const { violations } = await target.evaluate(() =>
        globalThis.axe.run(document, { resultTypes: ['violations'] }),
      );
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
      assert.deepEqual(found, [], `${view}, ${size}, ${theme}`);
      await picture(target, `axe-${view}-${size}-${theme}`);
    }
  await target.setViewportSize({ width: 1440, height: 900 });
}
