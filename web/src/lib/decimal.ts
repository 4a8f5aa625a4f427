// Decimal text as typed. Prices and amounts are checked and stepped without binary fractions.

import { decimalsOf } from './format';

interface Decimal {
  /** The number times ten to the power of `scale`. */
  units: bigint;
  scale: number;
}

/** Null unless the text is a plain, unsigned decimal such as `12`, `12.50` or `.5`. */
export function parse(text: string): Decimal | null {
  const found = /^(\d*)(?:\.(\d*))?$/.exec(text.trim());
  const [, whole = '', fraction = ''] = found ?? [];
  if (found === null || whole + fraction === '') return null;
  return { units: BigInt(whole + fraction), scale: fraction.length };
}

/** A step of the venue's grid arrives as a number; its shortest text is what the venue wrote. */
function ofStep(step: number): Decimal {
  const scale = decimalsOf(step);
  return { units: BigInt(Math.round(step * 10 ** scale)), scale };
}

function rescale({ units, scale }: Decimal, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale);
}

function write(units: bigint, scale: number): string {
  const digits = units.toString().padStart(scale + 1, '0');
  return scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

export function isMultiple(text: string, step: number): boolean {
  const value = parse(text);
  const grid = ofStep(step);
  if (value === null || grid.units === 0n) return false;
  const scale = Math.max(value.scale, grid.scale);
  return rescale(value, scale) % rescale(grid, scale) === 0n;
}

/**
 * The next multiple of `step` above or below the typed number, at least one step. Off-grid text
 * moves to the grid.
 */
export function stepped(text: string, step: number, direction: 1 | -1): string {
  const grid = ofStep(step);
  const value = parse(text) ?? { units: 0n, scale: 0 };
  const scale = Math.max(value.scale, grid.scale);
  const unit = rescale(grid, scale);
  if (unit === 0n) return text;
  const units = rescale(value, scale);
  const below = units / unit;
  const steps = direction === 1 ? below + 1n : units % unit === 0n ? below - 1n : below;
  return write((steps < 1n ? 1n : steps) * grid.units, grid.scale);
}

/** A number of the venue's grid as text for a field: no grouping, all its decimals. */
export function onGrid(value: number, step: number): string {
  return value.toFixed(decimalsOf(step));
}
