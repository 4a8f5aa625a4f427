import { expect, test } from 'vitest';
import { amountUnit, describe as kindOf, phase, type Instrument } from '../src/lib/venue';
import { SPOT } from './spot';

const PERPETUAL: Instrument = {
  ...SPOT,
  instrument_name: 'BTC-PERPETUAL',
  kind: 'future',
  base_currency: 'BTC',
  quote_currency: 'USD',
  instrument_type: 'reversed',
  settlement_period: 'perpetual',
};

test('amounts of an inverse contract count its quote currency', () => {
  expect([amountUnit(SPOT), amountUnit(PERPETUAL)]).toEqual(['NPN', 'USD']);
});

test('kinds in words', () => {
  expect([kindOf(SPOT), kindOf(PERPETUAL)]).toEqual(['spot', 'inverse perpetual']);
});

test.each([
  ['open', undefined, null],
  ['open', 'continuous', null],
  ['open', 'continuous_trading', null],
  ['open', 'intraday_auction', 'intraday auction'],
  ['halted', 'continuous', 'halted'],
  ['inactive', undefined, 'inactive'],
  [undefined, undefined, null],
])('phase(%s, %s) is %s', (state, session, badge) => expect(phase(state, session)).toBe(badge));
