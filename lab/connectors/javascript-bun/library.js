// The WebSocket of Bun.
import { openStandard } from '../common/javascript/standard.js';

export const name = 'WebSocket of Bun';
export const version = Bun.version;

export function open(url, ca, events) {
  const perMessageDeflate = process.env.LAB_COMPRESS === '1';
  const options = { perMessageDeflate, ...(ca ? { tls: { ca: Bun.file(ca) } } : {}) };
  return openStandard(new WebSocket(url, options), events);
}
