// The venue's own figures, read from `/metrics` in the Prometheus text format.

/** A metric's text before its value, such as `pitwire_orders_total`, and the value. */
export type Metrics = ReadonlyMap<string, number>;

/** Reads the Prometheus text format. Lines that are no samples are left out. */
export function parseMetrics(text: string): Metrics {
  const found = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) continue;
    const cut = line.lastIndexOf(' ');
    const value = Number(line.slice(cut + 1));
    if (cut > 0 && Number.isFinite(value)) found.set(line.slice(0, cut), value);
  }
  return found;
}

/** One reading of the venue's activity. */
export interface Activity {
  /** Milliseconds since 1970, of this browser's clock. */
  at: number;
  /** Orders, amends, cancels and all others. The venue counts orders alone by thousands only. */
  commandsPerSecond: number;
  tradesPerSecond: number;
  requestsPerSecond: number;
  /** Mean server latency of the requests between the readings, in milliseconds; null if none. */
  latencyMs: number | null;
}

const LATENCY_SUM = 'pitwire_request_residence_seconds_sum{stage="whole"}';
const LATENCY_COUNT = 'pitwire_request_residence_seconds_count{stage="whole"}';

/**
 * Rates between two readings of the counters, `seconds` apart. A counter that fell belongs to a new
 * start: 0.
 */
export function activity(before: Metrics, after: Metrics, seconds: number, at: number): Activity {
  const more = (name: string) => Math.max(0, (after.get(name) ?? 0) - (before.get(name) ?? 0));
  const rate = (name: string) => more(name) / Math.max(seconds, 1e-3);
  const answered = more(LATENCY_COUNT);
  return {
    at,
    commandsPerSecond: rate('pitwire_commands_total'),
    tradesPerSecond: rate('pitwire_trades_total'),
    requestsPerSecond: rate('pitwire_messages_total'),
    latencyMs: answered > 0 ? (more(LATENCY_SUM) / answered) * 1000 : null,
  };
}

/**
 * An SVG path through `values`, 0 at the bottom, the largest at the top; empty for fewer than two
 * values.
 */
export function sparkline(values: readonly number[], width: number, height: number): string {
  if (values.length < 2) return '';
  const most = Math.max(...values, Number.MIN_VALUE);
  const step = width / (values.length - 1);
  const point = (value: number, i: number) =>
    `${Math.round(i * step * 10) / 10} ${Math.round(height * (1 - value / most) * 10) / 10}`;
  return `M${values.map(point).join('L')}`;
}
