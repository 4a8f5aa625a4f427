import { expect, test } from 'vitest';
import { plot, roundNumbers, roundTimes } from '../src/lib/plot';

test('grid lines are at round numbers', () => {
  expect(roundNumbers(0, 10)).toEqual([0, 5, 10]);
  expect(roundNumbers(97, 103)).toEqual([98, 100, 102]);
  expect(roundTimes(0, 599)).toEqual([0, 120, 240, 360, 480]);
  expect(roundTimes(0, 3600)).toEqual([0, 1200, 2400, 3600]);
  expect(roundNumbers(3, 3)).toEqual([3]);
});

test('a line breaks where a value is missing', () => {
  const drawn = plot(
    [
      {
        name: 'a',
        colour: '--accent',
        points: [
          [0, 1],
          [1, null],
          [2, 3],
          [3, 4],
        ],
      },
    ],
    [400, 200],
    { fromZero: true },
  );
  expect(drawn?.lines[0]?.path.match(/[ML]/g)).toEqual(['M', 'M', 'L']);
  expect(drawn?.at(400)).toMatchObject({ x: 3, values: [4] });
  expect(drawn?.at(-9)).toMatchObject({ x: 0, values: [1] });
});

test('bars start at zero, and nothing is drawn without a value or a width', () => {
  const series = {
    name: 'a',
    colour: '--accent',
    bars: true,
    points: [
      [0, 0],
      [1, 5],
    ] as [number, number][],
  };
  expect(plot([series], [400, 200], { fromZero: true })?.lines[0]?.path.match(/M/g)).toHaveLength(1);
  expect(plot([series], [0, 200])).toBeNull();
  expect(plot([{ ...series, points: [[1, null]] }], [400, 200], { fromZero: true })).toBeNull();
  expect(plot([], [400, 200], { fromZero: true })).toBeNull();
});
