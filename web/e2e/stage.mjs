// A venue and a browser for the tests of one file.
import { after, before } from 'node:test';
import { Venue, openBrowser } from './venue.mjs';

/**
 * Starts a venue and a browser before the tests, and ends them afterwards. `prepare` gets both, and
 * may store an `api` beside them, which is closed too. `options` are those of `Venue.create`, and
 * `browserOptions` those of `openBrowser`.
 */
export function withVenue(prepare, options = [], browserOptions = {}) {
  const stage = {};
  before(async () => {
    stage.venue = await Venue.create(...options);
    stage.browser = await openBrowser(stage.venue, browserOptions);
    await prepare(stage);
  });
  after(async () => {
    stage.api?.close();
    await stage.browser?.context.close();
    await stage.venue?.end();
  });
}
