// The WebSocket of Bun.
import { openStandard } from '../common/javascript/standard.js';

export const name = 'WebSocket of Bun';
export const version = Bun.version;

export function open(url, ca, events) {
  return openStandard(new WebSocket(url, { perMessageDeflate: false, ...(ca ? { tls: { ca: Bun.file(ca) } } : {}) }), events);
}
