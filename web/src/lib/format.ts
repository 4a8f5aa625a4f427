// Number formats for traders: fixed decimals from the instrument's grid, grouped thousands.

/** Text of a missing number. */
export const NONE = '–';
const MINUS = '\u2212';

const formatters = new Map<number, Intl.NumberFormat>();

function formatter(decimals: number): Intl.NumberFormat {
  let found = formatters.get(decimals);
  if (found === undefined) {
    found = new Intl.NumberFormat('en-US', {
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    });
    formatters.set(decimals, found);
  }
  return found;
}

/**
 * Decimals needed to write every multiple of `step` exactly: 0.05 needs 2, 10 needs 0, 1e-7 needs
 * 7.
 */
export function decimalsOf(step: number): number {
  if (!Number.isFinite(step) || step <= 0) return 0;
  const [mantissa = '', exponent = '0'] = String(step).split('e');
  const fraction = mantissa.split('.')[1]?.length ?? 0;
  return Math.min(12, Math.max(0, fraction - Number(exponent)));
}

export function fixed(value: number | undefined | null, decimals: number): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NONE;
  return formatter(decimals).format(value).replace('-', MINUS);
}

export function percent(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NONE;
  const sign = Math.abs(value) < 0.005 ? '' : value > 0 ? '+' : MINUS;
  return `${sign}${formatter(2).format(Math.abs(value))}%`;
}

const UNITS: [number, string][] = [
  [1e9, 'B'],
  [1e6, 'M'],
  [1e3, 'k'],
];

/** Short form of a large number: 12 345 678 as 12.35M. Numbers below ten thousand are unchanged. */
export function compact(value: number | undefined | null, decimals: number): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NONE;
  if (Math.abs(value) >= 10_000) {
    for (const [size, unit] of UNITS) {
      if (Math.abs(value) >= size) return fixed(value / size, 2) + unit;
    }
  }
  return fixed(value, decimals);
}

/** `local` is the time zone of the browser. */
export type TimeZoneChoice = 'utc' | 'local';

/** The time of day, hh:mm:ss. */
export function clock(milliseconds: number, zone: TimeZoneChoice = 'utc'): string {
  const at = new Date(milliseconds);
  if (zone === 'utc') return at.toISOString().slice(11, 19);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function milliseconds(value: number | null): string {
  if (value === null) return NONE;
  return `${fixed(value, value < 10 ? 1 : 0)} ms`;
}

/**
 * Venue times are whole milliseconds, so a smaller or slightly negative lag shows as below 1 ms.
 */
export function lagWords(value: number | null): string {
  if (value === null) return NONE;
  return Math.abs(value) < 1.5 ? '< 2 ms' : `${fixed(value, 0)} ms`;
}

/** The spoken part of an instrument name and the rest: NPN and _ZAR. */
export function splitName(name: string): [string, string] {
  const cut = name.search(/[_-]/);
  return cut <= 0 ? [name, ''] : [name.slice(0, cut), name.slice(cut)];
}
