// Plots of a few series over one axis, as paths for SVG.

export interface Series {
  name: string;
  /** A colour of the theme, such as `--accent`. */
  colour: string;
  points: [x: number, y: number | null][];
  /** Bars from zero instead of a line. */
  bars?: boolean;
}

export interface Mark {
  at: number;
  value: number;
}

export interface Plot {
  lines: { name: string; colour: string; path: string; bars: boolean }[];
  /** Horizontal grid lines. */
  rows: Mark[];
  columns: Mark[];
  /** The values of all series at a place, the nearest to it. */
  at(place: number): { x: number; place: number; values: (number | null)[] } | null;
}

/** Space for labels: left of the plot, below it, above it and right of it, in pixels. */
const [LEFT, FOOT, TOP, RIGHT] = [56, 20, 8, 12];

/** Two to six round numbers within a range, with steps of 1, 2 or 5 times a power of ten. */
export function roundNumbers(from: number, to: number): number[] {
  const rough = (to - from) / 4;
  if (!(rough > 0) || !Number.isFinite(rough)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? rough;
  const numbers = [];
  for (let at = Math.ceil(from / step); at * step <= to; at++) numbers.push(at * step);
  return numbers;
}

const TIME_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];

/** Two to six round times within a range of seconds. */
export function roundTimes(from: number, to: number): number[] {
  const step = TIME_STEPS.find((size) => size >= (to - from) / 5) ?? 14_400;
  const times = [];
  for (let at = Math.ceil(from / step); at * step <= to; at++) times.push(at * step);
  return times;
}

/**
 * Places series in a frame. `fromZero` starts the vertical axis at zero; `time` has seconds on the
 * other axis.
 */
export function plot(
  series: Series[],
  [width, height]: [number, number],
  { fromZero = false, time = false } = {},
): Plot | null {
  const all = series.flatMap(({ points }) => points);
  const known = all.filter((point): point is [number, number] => point[1] !== null);
  if (known.length === 0 || width <= LEFT + RIGHT || height <= TOP + FOOT) return null;
  const xs = known.map(([x]) => x);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  let [low, high] = [Math.min(...known.map(([, y]) => y)), Math.max(...known.map(([, y]) => y))];
  if (fromZero) low = Math.min(0, low);
  if (high === low) high = low + 1;
  const room = (high - low) * 0.06;
  high += room;
  if (!fromZero) low -= room;
  const span = right > left ? right - left : 1;
  const base = height - FOOT;
  const x = (value: number) => round(LEFT + ((value - left) / span) * (width - LEFT - RIGHT));
  const y = (value: number) => round(base - ((value - low) / (high - low)) * (base - TOP));

  const line = (points: Series['points']): string => {
    let path = '';
    let broken = true;
    for (const [at, value] of points) {
      if (value !== null) path += `${broken ? 'M' : 'L'}${x(at)} ${y(value)}`;
      broken = value === null;
    }
    return path;
  };
  const bars = (points: Series['points']): string =>
    points.map(([at, value]) => (value ? `M${x(at)} ${y(0)}V${y(value)}` : '')).join('');

  return {
    lines: series.map(({ name, colour, points, bars: asBars = false }) => ({
      name,
      colour,
      path: asBars ? bars(points) : line(points),
      bars: asBars,
    })),
    rows: roundNumbers(low, high).map((value) => ({ at: y(value), value })),
    columns: (time ? roundTimes : roundNumbers)(left, right).map((value) => ({ at: x(value), value })),
    at(place) {
      const wanted = left + ((place - LEFT) / (width - LEFT - RIGHT)) * span;
      const nearest = (points: Series['points']) =>
        points.reduce<[number, number | null] | null>(
          (best, point) =>
            best === null || Math.abs(point[0] - wanted) < Math.abs(best[0] - wanted) ? point : best,
          null,
        );
      const found = series.map(({ points }) => nearest(points));
      const first = found.find((point) => point !== null);
      if (first === undefined || first === null) return null;
      return { x: first[0], place: x(first[0]), values: found.map((point) => point?.[1] ?? null) };
    },
  };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
