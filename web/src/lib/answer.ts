import { RpcError } from './rpc';

/** The result of an action, as the page shows it. */
export interface Answer {
  good: boolean;
  title: string;
  /** The venue's error and remedy. */
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
