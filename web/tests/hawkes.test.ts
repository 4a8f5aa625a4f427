import { expect, test } from 'vitest';
import {
  branching,
  example,
  fault,
  longRunRates,
  spectralRadius,
  toToml,
  withKernel,
  withType,
  withoutType,
} from '../src/lib/hawkes';

test('the spectral radius is that of matrices whose eigenvalues are known', () => {
  expect(spectralRadius([[0.5]])).toBeCloseTo(0.5, 10);
  expect(
    spectralRadius([
      [0.2, 0.5],
      [0.5, 0.2],
    ]),
  ).toBeCloseTo(0.7, 10);
  // Eigenvalues 0 and a + d of a matrix of rank one.
  expect(
    spectralRadius([
      [0.4, 0.8],
      [0.3, 0.6],
    ]),
  ).toBeCloseTo(1, 10);
  expect(
    spectralRadius([
      [0, 2],
      [2, 0],
    ]),
  ).toBeCloseTo(2, 10);
  expect(spectralRadius([[NaN]])).toBeNaN();
});

test('an empty field makes the radius unknown, and the fault says which field', () => {
  const model = example();
  expect(fault(model)).toBeNull();
  model.kernels[0]!.jump[0]![1] = null;
  expect(fault(model)).toBe('A jump of kernel 1 is no number. Give 0 or more.');
  model.kernels[0]!.jump[0]![1] = 0;
  model.kernels[0]!.decay = null;
  expect(spectralRadius(branching(model))).toBeNaN();
  expect(fault(model)).toBe('The decay of kernel 1 is not above 0. Give a rate per second.');
  model.kernels[0]!.decay = 4;
  model.types[1]!.name = 'take';
  expect(fault(model)).toBe('Two types are named take. Rename one.');
});

test('types and kernels are added and removed in every matrix', () => {
  const wider = withKernel(withType(example()));
  expect(wider.types.map(({ name }) => name)).toEqual(['take', 'rest', 'leave', 'type_4']);
  expect(wider.kernels.map(({ jump }) => jump.map((row) => row.length))).toEqual([
    [4, 4, 4, 4],
    [4, 4, 4, 4],
  ]);
  expect(withoutType(wider, 0).kernels[0]!.jump).toEqual([
    [0.5, 0, 0],
    [0.5, 1, 0],
    [0, 0, 0],
  ]);
  expect(spectralRadius(branching(wider))).toBeCloseTo(spectralRadius(branching(example())), 6);
});

test('long-run rates count what events cause', () => {
  expect(longRunRates([1], [[0.5]])[0]).toBeCloseTo(2, 6);
  const rates = longRunRates([0.5, 1, 0.2], branching(example()));
  expect(rates[0]).toBeCloseTo(0.5 / 0.8, 6);
});

test('a model becomes a flow file with floats', () => {
  const text = toToml(example());
  expect(text).toContain('[[flow]]\nmaker_levels = 6\n');
  expect(text).toContain('name = "rest"\nbase_per_s = 1.0\norder = "behind"\nside = "either"\n');
  expect(text).toContain('jump_per_s = [\n    [0.8, 0.0, 0.0],\n    [1.0, 0.5, 0.0],\n');
  expect(text).toContain('decay_per_s = 4.0\n');
});
