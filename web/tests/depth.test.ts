import { expect, test } from 'vitest';
import { Book } from '../src/lib/book';
import { curve } from '../src/lib/depth';
import type { BookEdit } from '../src/lib/venue';

function ladder(bids: [number, number][], asks: [number, number][]) {
  const book = new Book();
  const edits = (side: [number, number][]) => side.map(([price, amount]): BookEdit => ['new', price, amount]);
  book.apply({
    ...{ type: 'snapshot', timestamp: 0, instrument_name: 'A', change_id: 1 },
    ...{ bids: edits(bids), asks: edits(asks) },
  });
  return book.ladder(100);
}

const LADDER = ladder(
  [
    [99, 10],
    [98, 20],
    [96, 30],
  ],
  [
    [101, 5],
    [104, 15],
  ],
);

test('reading a place gives what stands between it and the middle', () => {
  const drawn = curve(LADDER, 800, 400)!;
  // The far ends are 96 and 104: eight wide on 800 pixels, the middle at 100.
  expect(drawn.prices.map(({ price }) => price)).toEqual([96, 100, 104]);
  const at = (price: number) => drawn.at((price - 96) * 100);
  expect(at(99.5)).toBeNull();
  expect(at(99)).toMatchObject({ total: 10, side: 'bid' });
  expect(at(97)).toMatchObject({ total: 30, side: 'bid' });
  expect(at(96)).toMatchObject({ total: 60, side: 'bid' });
  expect(at(101.5)).toMatchObject({ total: 5, side: 'ask' });
  expect(at(104)).toMatchObject({ total: 20, side: 'ask' });
});

test('the outlines step at the prices, to heights in proportion', () => {
  const drawn = curve(LADDER, 800, 400)!;
  const numbers = (path: string) => [...path.matchAll(/[\d.]+/g)].map(Number);
  const [start, base, first, height, second, next] = numbers(drawn.bids);
  expect([start, first, second]).toEqual([300, 300, 200]);
  // Totals of 10 and 30 have heights of one to three.
  expect((base! - next!) / (base! - height!)).toBeCloseTo(3, 1);
  expect(drawn.asks.endsWith(`H800V${base}Z`)).toBe(true);
});

test('far orders that few would reach do not squeeze the rest', () => {
  const bids: [number, number][] = [
    [99, 95],
    [1, 5],
  ];
  expect(curve(ladder(bids, [[101, 95]]), 800, 400)!.prices[0]!.price).toBe(99);
});

test('a side missing draws nothing', () => expect(curve(ladder([[99, 1]], []), 800, 400)).toBeNull());

test('round totals mark the height', () => {
  const { heights } = curve(LADDER, 800, 400)!;
  expect(heights.map(({ total }) => total)).toEqual([20, 40, 60]);
});
