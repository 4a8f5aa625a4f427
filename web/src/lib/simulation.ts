// Simulations that the venue runs for operators and members, and their reports.

export type RunState = 'starting' | 'running' | 'exporting' | 'done' | 'stopped' | 'failed';

export interface RunFile {
  name: string;
  bytes: number;
}

export interface Run {
  simulation_id: number;
  /** The member that started the run; absent for an operator. */
  member?: string;
  state: RunState;
  preset: string;
  seed: number;
  seconds?: number;
  events?: number;
  flow: string;
  instruments: string[];
  clients?: number;
  /** Most seconds of venue time in a second. */
  speed?: number;
  /** The same run on a command line. */
  command: string;
  started_ms: number;
  ended_ms?: number;
  done: number;
  total: number;
  result?: {
    events: number;
    orders: number;
    trades: number;
    wall_s: number;
    tape_hash: string;
    latency?: Latency;
  };
  error?: string;
  files: RunFile[];
  bytes: number;
}

/** Times of the commands of a run in the engine. Each bar counts those below its bound. */
export interface Latency {
  p50_ns: number;
  p99_ns: number;
  p99_9_ns: number;
  max_ns: number;
  bars: { below_ns: number; commands: number }[];
}

export interface Interval {
  at_s: number;
  lots: number;
  last_ticks: number | null;
  spread_ticks: number | null;
  best_bid_lots: number | null;
  best_ask_lots: number | null;
}

export interface SurvivalPoint {
  at: number;
  share: number;
}

/** The parts of `report.json` that the page draws. */
export interface Report {
  seconds: number;
  flow: {
    events_per_s: number;
    branching_ratio: number;
    types: {
      type: string;
      events: number;
      per_s: number;
      expected_per_s: number | null;
      standard_error_per_s: number | null;
    }[];
    interevent_times: { events: number; distance: number; bound_99: number; rescaled: SurvivalPoint[] };
  };
  facts: { name: string; passed: number; judged: number }[];
  instruments: {
    name: string;
    tick: number;
    trades: number;
    lots: number;
    depth_lots: { ticks: number; bid: number; ask: number }[];
    /** Absent in runs that an earlier build stored. */
    volume_by_type?: TypeVolumes;
    path: { interval_s: number; intervals: Interval[] };
  }[];
}

/** Traded lots of an instrument by the event type of the aggressive order. */
export interface TypeVolumes {
  types: { type: string; entered_lots: number; traded_lots: number }[];
  /** Traded lots without an aggressor. */
  uncross_lots: number;
  /** Traded lots of aggressors that are no orders of an event. */
  other_lots: number;
}

/** Returns a bar for each type that entered orders, and for the other trades if there were any. */
export function volumeBars({
  types,
  uncross_lots,
  other_lots,
}: TypeVolumes): { name: string; value: number }[] {
  const ofTypes = types
    .filter((one) => one.entered_lots > 0)
    .map((one) => ({ name: one.type, value: one.traded_lots }));
  const others = [
    { name: 'no aggressor', value: uncross_lots },
    { name: 'other aggressors', value: other_lots },
  ];
  return [...ofTypes, ...others.filter(({ value }) => value > 0)];
}

export interface FilePart {
  state: 'working' | 'done';
  bytes: number;
  offset: number;
  next_offset: number | null;
  data: string;
}

export const isFinished = (run: Run): boolean => ['done', 'stopped', 'failed'].includes(run.state);

/** Decodes Base64. */
export function bytesOf(data: string): Uint8Array<ArrayBuffer> {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** A size on disk, such as 1.4 MB. */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB'];
  let at = 0;
  let value = bytes;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

/** A short time in its unit, such as 4.1 µs. */
export function brief(ns: number): string {
  const units = ['ns', 'µs', 'ms', 's'];
  let at = 0;
  let value = ns;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** A length of time in the two largest units, such as 6 h 5 min. */
export function lasting(seconds: number): string {
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes > 0) return whole % 60 > 0 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  return `${whole} s`;
}
