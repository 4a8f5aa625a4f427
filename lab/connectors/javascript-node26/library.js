// The WebSocket of Node.
import { openStandard } from '../common/javascript/standard.js';

export const name = 'WebSocket of Node';
export const version = process.versions.node;
export const open = (url, ca, events) => openStandard(new WebSocket(url), events);
