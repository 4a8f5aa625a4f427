// The WebSocket of the WHATWG standard, which browsers and runtimes have.
// Its `close` event has code 1006 if the connection is lost, in Deno 0. Node hides violations.
const VIOLATIONS = [1002, 1003, 1007, 1009];
const OPEN_MS = 5_000;

export function openStandard(socket, events) {
  socket.binaryType = 'arraybuffer';
  let failure = '';
  let isOpen = false;
  let isTooLate = false;
  const patience = setTimeout(() => {
    isTooLate = true;
    events.failed(new Error(`no connection within ${OPEN_MS} ms`));
  }, OPEN_MS);
  socket.onmessage = ({ data }) => {
    const receivedNs = events.now();
    if (typeof data === 'string') events.message(data, false, receivedNs);
    else events.message(Buffer.from(data), true, receivedNs);
  };
  socket.onopen = () => {
    clearTimeout(patience);
    if (isTooLate) return socket.close();
    isOpen = true;
    events.opened((text) => socket.send(text));
  };
  socket.onerror = (event) => {
    failure = String(event.message ?? event.error?.message ?? 'error');
    if (!isOpen) events.failed(new Error(failure));
  };
  socket.onclose = ({ code, reason, wasClean }) => {
    clearTimeout(patience);
    const text = failure || reason;
    if (!isOpen) events.failed(new Error(text));
    else if (isViolation(code, wasClean, text)) events.violated(`${code} ${text}`);
    else if (code === 1006 || code === 0) events.lost(text || 'end of stream');
    else events.closed(code);
  };
  return { stop: () => (socket.terminate ? socket.terminate() : socket.close()) };
}

function isViolation(code, wasClean, text) {
  return (!wasClean && VIOLATIONS.includes(code)) || /utf-?8|invalid (frame|value)|reserved bits|protocol error/i.test(text);
}
