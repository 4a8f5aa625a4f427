import { expect, test } from 'vitest';
import { csv } from '../src/lib/csv';

test('CSV quotes what would break a row and defuses formulas', () => {
  expect(
    csv([
      ['a', 'b'],
      [1, 'x,"y"'],
      [-2, '=SUM(A1)'],
    ]),
  ).toBe('a,b\r\n1,"x,""y"""\r\n-2,\'=SUM(A1)\r\n');
});
