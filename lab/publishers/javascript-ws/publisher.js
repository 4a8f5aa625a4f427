// ws on Node: one process and one loop. `send` is called for each client. The timers of Node count
// in milliseconds, so a message leaves with the first tick after its due time.
// A client with more than 1 MiB of unsent data misses messages.

import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import { WebSocketServer } from "ws";

const MAX_UNSENT_BYTES = 1024 * 1024;
const env = process.env;

function echo(sockets) {
  sockets.on("connection", (socket) => {
    socket.on("message", (data, binary) => socket.send(data, { binary }));
  });
}

function heartbeat(sockets, messages, bytes) {
  const reply = Buffer.alloc(bytes, "x");
  sockets.on("connection", (socket) => {
    socket.on("message", () => {
      for (let i = 0; i < messages; i++) socket.send(reply, { binary: false });
    });
  });
}

function publish(sockets, message) {
  for (const socket of sockets.clients) {
    const isFree = socket.readyState === 1 && socket.bufferedAmount < MAX_UNSENT_BYTES;
    if (isFree) socket.send(message, { binary: false });
  }
}

function generate(sockets, rate, bytes) {
  const start = performance.now();
  const startNs = BigInt(Math.round((performance.timeOrigin + start) * 1e6));
  let sequence = 0;
  const dueMs = () => ((sequence + 1) / rate) * 1000;
  const tick = () => {
    while (start + dueMs() <= performance.now()) {
      const dueNs = startNs + BigInt(Math.round(dueMs() * 1e6));
      sequence += 1;
      const head = `{"seq":${sequence},"ts_ns":${dueNs},"pad":"`;
      publish(sockets, Buffer.from(`${head}${"x".repeat(Math.max(0, bytes - head.length - 2))}"}`));
    }
    setTimeout(tick, Math.max(0, start + dueMs() - performance.now()));
  };
  tick();
}

async function consume(sockets, url, subject) {
  const { connect } = await import("@nats-io/transport-node");
  const queue = await connect({ servers: url });
  queue.subscribe(subject, { callback: (_, message) => publish(sockets, message.data) });
  await queue.flush();
}

export function writeReadyFile(path, { address, port }) {
  writeFileSync(`${path}.unfinished`, JSON.stringify({ http: `${address}:${port}` }));
  renameSync(`${path}.unfinished`, path);
}

// Starts the publisher and resolves to its address.
export async function serve() {
  const server = createServer();
  const isAllowed = ({ req }) =>
    env.LAB_TEST !== "queue" ||
    new URL(req.url, "ws://x").searchParams.get("token") === env.LAB_TOKEN;
  const sockets = new WebSocketServer({ server, perMessageDeflate: false, verifyClient: isAllowed });
  sockets.on("connection", (socket) => socket.on("error", () => {}));
  switch (env.LAB_TEST) {
    case "echo":
      echo(sockets);
      break;
    case "heartbeat":
      heartbeat(sockets, Number(env.LAB_MESSAGES), Number(env.LAB_BYTES));
      break;
    case "fan-out":
      generate(sockets, Number(env.LAB_RATE), Number(env.LAB_BYTES));
      break;
    case "queue":
      await consume(sockets, env.LAB_QUEUE, env.LAB_SUBJECT);
      break;
    default:
      console.error(`invalid LAB_TEST ${env.LAB_TEST}: expected echo, heartbeat, fan-out or queue`);
      process.exit(2);
  }
  server.listen(Number(env.LAB_PORT), env.LAB_HOST);
  await once(server, "listening");
  return server.address();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeReadyFile(env.LAB_READY_FILE, await serve());
}
