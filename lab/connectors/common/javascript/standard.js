// The WebSocket of the WHATWG standard, which browsers and runtimes have.
// Its `close` event has code 1006 if the connection is lost. It is not clean after a violation.
const VIOLATIONS = [1002, 1003, 1007, 1009];

export function openStandard(socket, events) {
  socket.binaryType = 'arraybuffer';
  let failure = '';
  let isOpen = false;
  socket.onmessage = ({ data }) => {
    const receivedNs = events.now();
    if (typeof data === 'string') events.message(data, false, receivedNs);
    else events.message(Buffer.from(data), true, receivedNs);
  };
  socket.onopen = () => {
    isOpen = true;
    events.opened((text) => socket.send(text));
  };
  socket.onerror = (event) => {
    failure = String(event.message ?? event.error?.message ?? 'error');
    if (!isOpen) events.failed(new Error(failure));
  };
  socket.onclose = ({ code, reason, wasClean }) => {
    const text = failure || reason;
    if (!isOpen) events.failed(new Error(text));
    else if (isViolation(code, wasClean, text)) events.violated(`${code} ${text}`);
    else if (code === 1006) events.lost(text || 'end of stream');
    else events.closed(code);
  };
  return { stop: () => (socket.terminate ? socket.terminate() : socket.close()) };
}

function isViolation(code, wasClean, text) {
  return (!wasClean && VIOLATIONS.includes(code)) || /utf-?8|invalid frame|protocol error/i.test(text);
}
