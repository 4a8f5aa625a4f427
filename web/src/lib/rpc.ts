// JSON-RPC 2.0 over WebSocket: one object per text frame, notifications without an id.

/** The data of a venue error. */
export interface ErrorData {
  reason?: string;
  remedy?: string;
  rule?: string;
  param?: string;
}

export class RpcError extends Error {
  constructor(
    readonly code: number,
    /** The dialect's short name, such as `price_wrong_tick`. */
    readonly title: string,
    readonly data: ErrorData = {},
  ) {
    super(data.reason ? `${title}: ${data.reason}` : title);
    this.name = 'RpcError';
  }
}

export type Incoming =
  | { kind: 'result'; id: number; result: unknown }
  | { kind: 'error'; id: number | null; error: RpcError }
  | { kind: 'notification'; channel: string; data: unknown }
  | { kind: 'other' };

export function encode(id: number, method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

/** Classifies a frame. `other` is everything that this page does not use, broken text included. */
export function decode(text: string): Incoming {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return { kind: 'other' };
  }
  if (!isObject(frame)) return { kind: 'other' };
  if (frame.method === 'subscription' && isObject(frame.params) && typeof frame.params.channel === 'string') {
    return { kind: 'notification', channel: frame.params.channel, data: frame.params.data };
  }
  const id = typeof frame.id === 'number' ? frame.id : null;
  if (isObject(frame.error)) return { kind: 'error', id, error: toError(frame.error) };
  if (id !== null && 'result' in frame) return { kind: 'result', id, result: frame.result };
  return { kind: 'other' };
}

function toError(error: Record<string, unknown>): RpcError {
  const code = typeof error.code === 'number' ? error.code : 0;
  const title = typeof error.message === 'string' ? error.message : 'unknown error';
  const details = isObject(error.data) ? error.data : {};
  const data: ErrorData = {};
  for (const key of ['reason', 'remedy', 'rule', 'param'] as const) {
    const value = details[key];
    if (typeof value === 'string' && value !== '') data[key] = value;
  }
  return new RpcError(code, title, data);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
