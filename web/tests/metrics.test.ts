import { expect, test } from 'vitest';
import { activity, parseMetrics, sparkline } from '../src/lib/metrics';

const TEXT = `# HELP pitwire_commands_total Commands.
# TYPE pitwire_commands_total counter
pitwire_commands_total 3000
pitwire_request_residence_seconds_sum{stage="whole"} 0.0035
pitwire_request_residence_seconds_count{stage="whole"} 7
not a sample
`;

test('samples are read with their labels, comments and rubbish are not', () => {
  expect([...parseMetrics(TEXT)]).toEqual([
    ['pitwire_commands_total', 3000],
    ['pitwire_request_residence_seconds_sum{stage="whole"}', 0.0035],
    ['pitwire_request_residence_seconds_count{stage="whole"}', 7],
  ]);
});

test('a rate is the difference by the time, and a restart is no negative rate', () => {
  const before = parseMetrics('pitwire_commands_total 2000\npitwire_trades_total 90');
  const found = activity(before, parseMetrics(TEXT), 2, 1);
  expect(found).toEqual({
    at: 1,
    commandsPerSecond: 500,
    tradesPerSecond: 0,
    requestsPerSecond: 0,
    latencyMs: 0.5,
  });
});

test('latency is the mean of the requests between two readings, not of the whole run', () => {
  const stage = 'pitwire_request_residence_seconds';
  const before = parseMetrics(`${stage}_sum{stage="whole"} 0.0015\n${stage}_count{stage="whole"} 6`);
  expect(activity(before, parseMetrics(TEXT), 2, 1).latencyMs).toBeCloseTo(2);
});

test('without requests there is no latency', () => {
  expect(activity(new Map(), new Map(), 2, 1).latencyMs).toBeNull();
  expect(activity(parseMetrics(TEXT), parseMetrics(TEXT), 2, 1).latencyMs).toBeNull();
});

test('a sparkline spans its width, the largest value at the top', () => {
  expect(sparkline([0, 2, 1], 10, 4)).toBe('M0 4L5 0L10 2');
  expect(sparkline([1], 10, 4)).toBe('');
});
