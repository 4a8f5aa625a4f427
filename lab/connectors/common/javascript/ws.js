// ws, from the folder of the connector.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const requireOwn = createRequire(`${process.cwd()}/`);
const { WebSocket } = requireOwn('ws');

export const name = 'ws';
export const { version } = JSON.parse(readFileSync('node_modules/ws/package.json'));

export function open(url, ca, events) {
  const perMessageDeflate = process.env.LAB_COMPRESS === '1';
  const options = { perMessageDeflate, maxPayload: 16 * 1024 * 1024, handshakeTimeout: 5_000 };
  if (ca) options.ca = readFileSync(ca);
  const socket = new WebSocket(url, options);
  let failure = null;
  socket.on('message', (data, isBinary) => events.message(data, isBinary, events.now()));
  socket.on('open', () => events.opened((text) => socket.send(text)));
  socket.on('error', (error) => {
    failure = error;
    events.failed(error);
  });
  socket.on('close', (code) => {
    if (failure?.code?.startsWith('WS_ERR_')) events.violated(failure.message);
    else if (code === 1006) events.lost(failure?.message ?? 'end of stream');
    else events.closed(code);
  });
  return { stop: () => socket.terminate() };
}
