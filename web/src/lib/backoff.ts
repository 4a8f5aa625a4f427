export const FIRST_DELAY = 250;
export const LONGEST_DELAY = 5000;

/**
 * Delay before attempt `attempt` (from 0), in milliseconds. It doubles up to a maximum. Half of it
 * is random, so
 * pages that lost a venue at the same time do not reconnect at the same time.
 */
export function delay(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(attempt, 16));
  return Math.max(FIRST_DELAY, Math.round((ceiling / 2) * (1 + random())));
}
