// ws on Node: one process, one loop, `send` to each client. Timers are of milliseconds: a message leaves with the first
// tick after it was due. A client with more than a mebibyte waiting misses messages.
// The socket comes as file descriptor 3, already listening, because Node cannot set TCP_CONGESTION.

import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { WebSocketServer } from "ws";

const WAITING_BYTES = 1024 * 1024;

const { values: options } = parseArgs({
  options: {
    listen: { type: "string" },
    "ready-file": { type: "string" },
    respond: { type: "string" },
    synthetic: { type: "string" },
    bytes: { type: "string", default: "190" },
  },
});

const server = createServer();
const sockets = new WebSocketServer({ server, perMessageDeflate: false, maxPayload: 32 * 1024 });

function answering(text) {
  const [answers, bytes] = text.split("x").map(Number);
  const answer = Buffer.alloc(bytes, "x");
  sockets.on("connection", (socket) => {
    socket.on("error", () => {});
    socket.on("message", () => {
      for (let i = 0; i < answers; i++) socket.send(answer, { binary: false });
    });
  });
}

function publishing(rate, bytes) {
  const start = performance.now();
  const startRealtime = BigInt(Math.round((performance.timeOrigin + start) * 1e6));
  let sequence = 0;
  const due = () => ((sequence + 1) / rate) * 1000;
  const tick = () => {
    while (start + due() <= performance.now()) {
      const dueNs = startRealtime + BigInt(Math.round(due() * 1e6));
      sequence += 1;
      const head = `{"seq":${sequence},"ts_ns":${dueNs},"pad":"`;
      const message = Buffer.from(`${head}${"x".repeat(Math.max(0, bytes - head.length - 2))}"}`);
      for (const socket of sockets.clients) {
        if (socket.readyState === 1 && socket.bufferedAmount < WAITING_BYTES) socket.send(message, { binary: false });
      }
    }
    setTimeout(tick, Math.max(0, start + due() - performance.now()));
  };
  sockets.on("connection", (socket) => socket.on("error", () => {}));
  tick();
}

if (options.respond) answering(options.respond);
else publishing(Number(options.synthetic), Number(options.bytes));

server.listen({ fd: 3 }, () => {
  const address = server.address();
  const ready = JSON.stringify({ http: `${address.address}:${address.port}`, pid: process.pid });
  writeFileSync(`${options["ready-file"]}.unfinished`, ready);
  renameSync(`${options["ready-file"]}.unfinished`, options["ready-file"]);
});
