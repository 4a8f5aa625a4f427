// The WebSocket of Deno.
import { openStandard } from '../common/javascript/standard.js';

export const name = 'WebSocket of Deno';
export const version = Deno.version.deno;
export const open = (url, ca, events) => openStandard(new WebSocket(url), events);
