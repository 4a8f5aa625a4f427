// undici, the library behind fetch of Node.
import { readFileSync } from 'node:fs';
import { Agent, WebSocket } from 'undici';
import { openStandard } from '../common/javascript/standard.js';

export const name = 'undici';
export const { version } = JSON.parse(readFileSync(new URL('node_modules/undici/package.json', import.meta.url)));

export function open(url, ca, events) {
  const connect = { timeout: 5_000, noDelay: true, ...(ca ? { ca: readFileSync(ca) } : {}) };
  return openStandard(new WebSocket(url, { dispatcher: new Agent({ connect }) }), events);
}
