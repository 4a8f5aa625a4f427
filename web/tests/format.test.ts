import { expect, test } from 'vitest';
import {
  clock,
  compact,
  decimalsOf,
  fixed,
  lagWords,
  milliseconds,
  percent,
  splitName,
} from '../src/lib/format';

test.each([
  [0.01, 2],
  [0.5, 1],
  [0.05, 2],
  [0.0001, 4],
  [1e-7, 7],
  [2.5e-7, 8],
  [1, 0],
  [10, 0],
  [1e21, 0],
  [0, 0],
  [Number.NaN, 0],
])('decimalsOf(%s) is %s', (step, decimals) => expect(decimalsOf(step)).toBe(decimals));

test.each([
  [3250, 2, '3,250.00'],
  [0.1 + 0.2, 1, '0.3'],
  [-1234.5, 1, '−1,234.5'],
  [undefined, 2, '–'],
  [null, 2, '–'],
  [Number.NaN, 2, '–'],
])('fixed(%s, %s) is %s', (value, decimals, text) => expect(fixed(value, decimals)).toBe(text));

test.each([
  [1.234, '+1.23%'],
  [-0.5, '−0.50%'],
  [0.001, '0.00%'],
  [undefined, '–'],
])('percent(%s) is %s', (value, text) => expect(percent(value)).toBe(text));

test.each([
  [9_999, 0, '9,999'],
  [12_345, 0, '12.35k'],
  [-2_500_000, 0, '−2.50M'],
  [7e9, 0, '7.00B'],
  [0.1234, 4, '0.1234'],
  [undefined, 0, '–'],
])('compact(%s, %s) is %s', (value, decimals, text) => expect(compact(value, decimals)).toBe(text));

test('clock is in UTC', () => expect(clock(Date.UTC(2026, 10, 21, 23, 5, 9, 700))).toBe('23:05:09'));

test.each([
  [0.42, '0.4 ms'],
  [18.6, '19 ms'],
  [null, '–'],
])('milliseconds(%s) is %s', (value, text) => expect(milliseconds(value)).toBe(text));

test.each([
  ['NPN_ZAR', ['NPN', '_ZAR']],
  ['BTC-PERPETUAL', ['BTC', '-PERPETUAL']],
  ['ETH_USDC-PERPETUAL', ['ETH', '_USDC-PERPETUAL']],
  ['XYZ', ['XYZ', '']],
])('splitName(%s)', (name, parts) => expect(splitName(name)).toEqual(parts));

test.each([
  [null, '–'],
  [0.2, '< 2 ms'],
  [-0.9, '< 2 ms'],
  [12.4, '12 ms'],
  [-40, '−40 ms'],
])('a lag of %s is written %s', (value, text) => expect(lagWords(value)).toBe(text));
