// Parameters of a Hawkes process, as the editor has them and as a flow file (docs/flow.md).

/** An empty field of the editor is null. */
type Field = number | null;

export interface EventType {
  name: string;
  base: Field;
  order: string;
  side: string;
}

export interface Kernel {
  /** Rows are the types that are excited, columns the types that excite. */
  jump: Field[][];
  decay: Field;
}

export interface Model {
  types: EventType[];
  kernels: Kernel[];
  /** Price levels that a market maker quotes on each side. */
  makerLevels: Field;
}

export const ORDERS = [
  'empty_touch',
  'take_level',
  'leave_touch',
  'inside',
  'improve',
  'join',
  'behind',
  'move_mid',
  'cancel_best',
  'cancel_behind',
];
export const SIDES = ['either', 'buy', 'sell'];
/** Bounds of the editor. Files may have more. */
export const TYPES_MAX = 12;
export const KERNELS_MAX = 8;

/** The example of docs/flow.md. */
export function example(): Model {
  return {
    makerLevels: 6,
    types: [
      { name: 'take', base: 0.5, order: 'leave_touch', side: 'either' },
      { name: 'rest', base: 1, order: 'behind', side: 'either' },
      { name: 'leave', base: 0.2, order: 'cancel_behind', side: 'either' },
    ],
    kernels: [
      {
        jump: [
          [0.8, 0, 0],
          [1, 0.5, 0],
          [0, 0.5, 1],
        ],
        decay: 4,
      },
    ],
  };
}

/** Returns the model with one more type, which nothing excites. */
export function withType(model: Model): Model {
  const names = new Set(model.types.map(({ name }) => name));
  let number = model.types.length + 1;
  while (names.has(`type_${number}`)) number += 1;
  const added: EventType = { name: `type_${number}`, base: 0.1, order: 'join', side: 'either' };
  return {
    ...model,
    types: [...model.types, added],
    kernels: model.kernels.map(({ jump, decay }) => ({
      decay,
      jump: [...jump.map((row) => [...row, 0]), [...model.types, added].map(() => 0)],
    })),
  };
}

export function withoutType(model: Model, at: number): Model {
  const rest = <T>(list: T[]) => list.filter((_, place) => place !== at);
  return {
    ...model,
    types: rest(model.types),
    kernels: model.kernels.map(({ jump, decay }) => ({ decay, jump: rest(jump).map(rest) })),
  };
}

export function withKernel(model: Model): Model {
  const jump = model.types.map(() => model.types.map(() => 0));
  return { ...model, kernels: [...model.kernels, { jump, decay: 1 }] };
}

/** Returns the first thing that is wrong, in words for the user, or null. */
export function fault(model: Model): string | null {
  const positive = (value: Field) => value !== null && Number.isFinite(value) && value > 0;
  const least = (value: Field) => value !== null && Number.isFinite(value) && value >= 0;
  const names = model.types.map(({ name }) => name.trim());
  if (names.some((name) => name === '')) return 'A type has no name. Give each one a name.';
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return `Two types are named ${twice}. Rename one.`;
  for (const { name, base } of model.types)
    if (!least(base)) return `The base rate of ${name} is no number. Give 0 or more.`;
  if (!model.types.some(({ base }) => positive(base))) return 'All base rates are 0. Give one of them more.';
  if (!least(model.makerLevels)) return 'The levels of the market maker are no number. Give 0 or more.';
  for (const [at, { jump, decay }] of model.kernels.entries()) {
    if (!positive(decay)) return `The decay of kernel ${at + 1} is not above 0. Give a rate per second.`;
    if (!jump.every((row) => row.every(least)))
      return `A jump of kernel ${at + 1} is no number. Give 0 or more.`;
  }
  return null;
}

/** Mean number of events of each row's type that an event of a column's type causes directly. */
export function branching({ types, kernels }: Model): number[][] {
  return types.map((_, row) =>
    types.map((_, column) =>
      kernels.reduce((sum, { jump, decay }) => sum + (jump[row]?.[column] ?? NaN) / (decay ?? NaN), 0),
    ),
  );
}

/**
 * The spectral radius of a matrix without negative entries, by power iteration on 1 + G, as the
 * venue computes it. The venue decides; this one is for the eyes.
 */
export function spectralRadius(matrix: number[][]): number {
  let vector = matrix.map(() => 1);
  let most = Infinity;
  for (let step = 0; step < 2_000; step++) {
    const grown = matrix.map(
      (row, at) => vector[at]! + row.reduce((sum, value, k) => sum + value * vector[k]!, 0),
    );
    const growth = grown.map((value, at) => value / vector[at]!);
    most = Math.max(...growth);
    const largest = Math.max(...grown);
    if (!Number.isFinite(most) || most - Math.min(...growth) < 1e-12) break;
    vector = grown.map((value) => Math.max(value / largest, 1e-200));
  }
  return most - 1;
}

/** The long-run rates of a stable process: base plus what all events cause. */
export function longRunRates(base: number[], matrix: number[][]): number[] {
  let rates = base;
  for (let step = 0; step < 20_000; step++) {
    const next = matrix.map(
      (row, at) => base[at]! + row.reduce((sum, value, k) => sum + value * rates[k]!, 0),
    );
    const change = Math.max(...next.map((value, at) => Math.abs(value - rates[at]!)));
    rates = next;
    if (change < 1e-9) break;
  }
  return rates;
}

/** The model as a flow file. */
export function toToml({ types, kernels, makerLevels }: Model): string {
  const float = (value: Field) => {
    const text = String(value ?? 0);
    return /[.e]/.test(text) ? text : `${text}.0`;
  };
  const lines = ['[[flow]]', `maker_levels = ${Math.round(makerLevels ?? 0)}`];
  for (const { name, base, order, side } of types)
    lines.push(
      ...['', '[[flow.type]]', `name = ${JSON.stringify(name.trim())}`, `base_per_s = ${float(base)}`],
      ...[`order = "${order}"`, `side = "${side}"`],
    );
  for (const { jump, decay } of kernels) {
    const rows = jump.map((row) => `    [${row.map(float).join(', ')}],`);
    lines.push('', '[[flow.kernel]]', 'jump_per_s = [', ...rows, ']', `decay_per_s = ${float(decay)}`);
  }
  return `${lines.join('\n')}\n`;
}
