import type { Trade } from './venue';

/**
 * Adds trades to a list with the newest first. History and stream overlap, so duplicates are
 * dropped.
 */
export function merge(tape: readonly Trade[], incoming: readonly Trade[], limit: number): Trade[] {
  const bySequence = new Map<number, Trade>();
  for (const trade of tape) bySequence.set(trade.trade_seq, trade);
  for (const trade of incoming) bySequence.set(trade.trade_seq, trade);
  return [...bySequence.values()].sort((a, b) => b.trade_seq - a.trade_seq).slice(0, limit);
}

/** The trades of a batch that come after `sequence`, oldest first. */
export function after(sequence: number, incoming: readonly Trade[]): Trade[] {
  return incoming.filter((trade) => trade.trade_seq > sequence).sort((a, b) => a.trade_seq - b.trade_seq);
}
