import { RpcError } from './rpc';

/** What the page says after something was asked for. */
export interface Answer {
  good: boolean;
  title: string;
  /** Why not, and what to do about it, in the venue's words. */
  reason?: string;
  remedy?: string;
  code?: number;
}

export function done(title: string): Answer {
  return { good: true, title };
}

export function explain(error: unknown): Answer {
  if (error instanceof RpcError) {
    const { reason, remedy } = error.data;
    return {
      good: false,
      title: error.title.replaceAll('_', ' '),
      code: error.code,
      ...(reason !== undefined && { reason }),
      ...(remedy !== undefined && { remedy }),
    };
  }
  return { good: false, title: error instanceof Error ? error.message : String(error) };
}
