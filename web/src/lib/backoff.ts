export const FIRST_DELAY = 250;
export const LONGEST_DELAY = 5000;

/**
 * How long to wait before attempt `attempt` (from 0). Doubles up to a cap; the upper half is random, so that
 * pages which lost the same venue at the same moment do not all come back at once.
 */
export function delay(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(attempt, 16));
  return Math.max(FIRST_DELAY, Math.round((ceiling / 2) * (1 + random())));
}
