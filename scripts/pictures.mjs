// Makes the pictures of the page in docs/ with Chromium and a venue that has traded for six hours.
//
//     make build && node scripts/pictures.mjs
//
// PITWIRE_BIN names another binary, CHROMIUM another browser, as for the tests in web/e2e.
import { join } from 'node:path';
import { Api, Venue, logIn, openBrowser, until } from '../web/e2e/venue.mjs';

const NAME = 'NPN_ZAR';
const DOCS = join(import.meta.dirname, '../docs');

const venue = await Venue.create('6h');
let browser;
try {
  browser = await openBrowser(venue);
  const member = await Api.open(venue, 'demo-a');
  const operator = await Api.open(venue, 'demo-operator');
  const tick = (await member.call('public/get_instrument', { instrument_name: NAME })).tick_size;
  const at = (price) => Number((Math.round(price / tick) * tick).toFixed(8));
  const { best_bid_price: bid, best_ask_price: ask } = await member.call('public/ticker', { instrument_name: NAME });
  // A fill, so that there is a position, and two resting orders within the range of the chart.
  await member.call('private/buy', { instrument_name: NAME, amount: 40, type: 'market' });
  await member.call('private/buy', { instrument_name: NAME, amount: 120, price: at(bid * 0.998) });
  await member.call('private/sell', { instrument_name: NAME, amount: 40, price: at(ask * 1.002) });

  const page = await logIn(browser, venue, NAME, 'demo-a');
  const candles = page.getByRole('img', { name: /^Candles of/ });
  await until(async () => Number(await candles.getAttribute('data-candles')) >= 100, 'a hundred candles');
  await page.waitForSelector('[data-order]');
  await page.waitForTimeout(3_000);
  await page.screenshot({ path: join(DOCS, 'page.png') });

  await operator.call('private/pitwire_volatility_call', { instrument_name: NAME, seconds: 90 });
  await page.getByRole('tab', { name: 'Auction', exact: true }).waitFor();
  await page.waitForTimeout(8_000);
  await page.screenshot({ path: join(DOCS, 'page-auction.png') });
  member.close();
  operator.close();
} finally {
  await browser?.context.close();
  await venue.end();
}
