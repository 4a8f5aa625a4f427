import { expect, test } from 'vitest';
import { volumeBars } from '../src/lib/simulation';

test('volumes show the types that enter orders, and other trades if there are any', () => {
  const types = [
    { type: 'take', entered_lots: 30, traded_lots: 20 },
    { type: 'rest', entered_lots: 40, traded_lots: 0 },
    { type: 'cancel', entered_lots: 0, traded_lots: 0 },
  ];
  expect(volumeBars({ types, uncross_lots: 0, other_lots: 5 })).toEqual([
    { name: 'take', value: 20 },
    { name: 'rest', value: 0 },
    { name: 'other aggressors', value: 5 },
  ]);
  expect(volumeBars({ types: [], uncross_lots: 7, other_lots: 0 })).toEqual([
    { name: 'no aggressor', value: 7 },
  ]);
});
