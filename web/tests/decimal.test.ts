import { expect, test } from 'vitest';
import { isMultiple, onGrid, parse, stepped } from '../src/lib/decimal';

test.each([
  ['12', true],
  ['12.50', true],
  ['.5', true],
  ['5.', true],
  [' 7 ', true],
  ['', false],
  ['.', false],
  ['-1', false],
  ['+1', false],
  ['1e5', false],
  ['1,000', false],
  ['0x10', false],
  ['NaN', false],
  ['１２', false],
])('%j is a decimal: %s', (text, good) => expect(parse(text) !== null).toBe(good));

test.each([
  ['0.3', 0.1, true],
  ['1.1', 0.1, true],
  ['3250.05', 0.01, true],
  ['3250.055', 0.01, false],
  ['60000.3', 0.5, false],
  ['60000.50', 0.5, true],
  ['15', 10, false],
  ['0.0003', 0.0001, true],
  ['0.00000001', 1e-8, true],
  ['9007199254740993', 1, true],
  ['9007199254740993.5', 1, false],
  ['x', 1, false],
])('%s is a multiple of %s: %s', (text, step, good) => expect(isMultiple(text, step)).toBe(good));

test.each([
  ['1.2', 0.1, 1, '1.3'],
  ['0.3', 0.1, -1, '0.2'],
  ['3250.055', 0.01, 1, '3250.06'],
  ['3250.055', 0.01, -1, '3250.05'],
  ['15', 10, 1, '20'],
  ['10', 10, -1, '10'],
  ['0.5', 0.5, -1, '0.5'],
  ['', 0.5, 1, '0.5'],
  ['', 0.5, -1, '0.5'],
  ['0.99999999', 1e-8, 1, '1.00000000'],
  ['words', 1, 1, '1'],
] as const)('%j stepped by %s, %s: %s', (text, step, direction, result) =>
  expect(stepped(text, step, direction)).toBe(result),
);

test('a price of the book as text for a field', () => {
  expect([onGrid(3250, 0.01), onGrid(60000.5, 0.5), onGrid(1e-7, 1e-7)]).toEqual([
    '3250.00',
    '60000.5',
    '0.0000001',
  ]);
});
