// ws.
export * from '../common/javascript/ws.js';
