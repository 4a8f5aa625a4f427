// A connector of the latency laboratory with ws, by contracts/lab-connector.md.
// The receive path is in this thread. capture.js writes the file in a worker.
import { readFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import WebSocket from 'ws';
import { ABSENT, Ring } from './ring.js';

const DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5, CAPTURE_ERROR = 6;
const NEEDED = ['URL', 'CAPTURE', 'SCHEMA', 'EXIT_FILE', 'RUN', 'CONNECTOR', 'EXCHANGE', 'ENVELOPE', 'PAYLOAD', 'RECONNECT'];
const GIVE_UP_MS = 10_000;
const environment = process.env;
const now = process.hrtime.bigint;
const version = JSON.parse(readFileSync(new URL('node_modules/ws/package.json', import.meta.url))).version;

// Standard output is written at once, because process.exit does not wait for a pipe.
const say = (line) => writeSync(1, line + '\n');

async function shakeHands() {
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) {
    if (line === 'clock') say(`clock ${now()}`);
    if (line === 'go') {
      process.stdin.unref();
      return;
    }
  }
  process.exit(USAGE);
}

class Receiver {
  constructor() {
    this.ring = new Ring();
    this.hasEnvelope = environment.LAB_ENVELOPE === 'text';
    this.keepsPayload = environment.LAB_PAYLOAD === 'all';
    this.connectionId = 0;
    this.stopping = false;
    this.collections = { gc_count: 0, gc_pause_ns: 0 };
    // Entries count milliseconds from the start of the process.
    const originNs = now() - BigInt(Math.round(performance.now() * 1e6));
    new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) {
        const pauseNs = Math.round(duration * 1e6);
        this.collections.gc_count += 1;
        this.collections.gc_pause_ns += pauseNs;
        const beginNs = originNs + BigInt(Math.round(startTime * 1e6));
        this.worker.postMessage({ kind: 'gc', beginNs, endNs: beginNs + BigInt(pauseNs) });
      }
    }).observe({ entryTypes: ['gc'] });
    const workerData = { shared: this.ring.shared, library: 'ws', version };
    this.worker = new Worker(new URL('capture.js', import.meta.url), { workerData });
    this.answers = [];
    this.worker.on('message', (message) => {
      if (message.kind === 'stop') this.stop();
      else this.answers.shift()?.(message);
    });
  }

  answer() {
    return new Promise((resolve) => this.answers.push(resolve));
  }

  take(data, isBinary, receivedNs) {
    let flags = isBinary ? 1 : 0;
    let feed = ABSENT, sequence = ABSENT, dueNs = ABSENT, sentNs = ABSENT;
    if (this.hasEnvelope && !isBinary && data.length >= 108 && data.toString('latin1', 0, 8) === '{"seq":"') {
      sequence = BigInt(data.toString('latin1', 8, 27));
      dueNs = BigInt(data.toString('latin1', 39, 58));
      sentNs = BigInt(data.toString('latin1', 71, 90));
      feed = BigInt(data.toString('latin1', 100, 106));
    } else flags |= 2;
    // The copy belongs to the message, because ws reuses its receive buffer.
    if (this.keepsPayload) this.worker.postMessage({ kind: 'payload', body: Uint8Array.from(data) });
    this.ring.put(this.connectionId, feed, sequence, dueNs, sentNs, receivedNs, data.length, flags);
  }

  // Opens a connection. `ended` of the result is a promise of why it ended.
  open() {
    return new Promise((resolve, reject) => {
      const options = { perMessageDeflate: false, maxPayload: 16 * 1024 * 1024, handshakeTimeout: 5_000 };
      if (environment.LAB_CA) options.ca = readFileSync(environment.LAB_CA);
      const socket = new WebSocket(environment.LAB_URL, options);
      let failure = null;
      const ended = new Promise((end) => {
        socket.on('close', (code) => end({ code, failure, atNs: now() }));
      });
      socket.on('message', (data, isBinary) => {
        const receivedNs = now();
        this.take(data, isBinary, receivedNs);
      });
      socket.on('error', (error) => {
        failure = error;
        reject(error);
      });
      socket.on('open', () => {
        this.socket = socket;
        this.connectionId += 1;
        this.worker.postMessage({ kind: 'open', id: this.connectionId, atNs: now() });
        if (environment.LAB_SUBSCRIBE) socket.send(environment.LAB_SUBSCRIBE);
        resolve({ ended });
      });
    });
  }

  // Tries again for ten seconds, at once and then every 50 to 200 ms.
  async reopen() {
    const until = performance.now() + GIVE_UP_MS;
    while (performance.now() < until && !this.stopping) {
      try {
        return await this.open();
      } catch {
        await sleep(50 + Math.random() * 150);
      }
    }
    return null;
  }

  async run() {
    let connection;
    try {
      connection = await this.open();
    } catch (error) {
      console.error(`cannot connect to ${environment.LAB_URL}: ${error.message}`);
      return CONNECT_FAILURE;
    }
    while (connection) {
      const { code, failure, atNs } = await connection.ended;
      if (this.stopping || (code === 1000 && !failure)) return DONE;
      const isProtocol = failure?.code?.startsWith('WS_ERR_');
      const reason = isProtocol ? 'protocol' : code === 1006 ? 'lost' : 'close';
      console.error(`connection ${this.connectionId} ended with ${code}: ${failure?.message ?? 'no error'}`);
      const closeCode = reason === 'close' ? code : null;
      this.worker.postMessage({ kind: 'gap', id: this.connectionId, reason, code: closeCode, atNs });
      if (environment.LAB_RECONNECT !== '1') return isProtocol ? PROTOCOL_ERROR : REMOTE_CLOSE;
      connection = await this.reopen();
    }
    return this.stopping ? DONE : CONNECT_FAILURE;
  }

  stop() {
    this.stopping = true;
    this.socket?.terminate();
  }

  async finish(code) {
    const { user, system } = process.cpuUsage();
    const facts = { ended_ns: now(), exit_code: code, messages: this.ring.received, cpu_us: user + system };
    const written = this.answer();
    this.worker.postMessage({ kind: 'finish', facts: { ...facts, ring_waits: this.ring.waits, ...this.collections } });
    const { failure } = await written;
    if (!failure) return code;
    console.error(`cannot write ${environment.LAB_CAPTURE}: ${failure}`);
    return CAPTURE_ERROR;
  }
}

const missing = NEEDED.find((name) => environment[`LAB_${name}`] === undefined);
if (missing || environment.LAB_BUSY_WAIT_NS) {
  console.error(`wrong environment: LAB_${missing ?? 'BUSY_WAIT_NS'}`);
  process.exit(USAGE);
}
await shakeHands();
const receiver = new Receiver();
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => receiver.stop());
const ready = await receiver.answer();
let code = CAPTURE_ERROR;
if (ready.failure) console.error(`cannot write ${environment.LAB_CAPTURE}: ${ready.failure}`);
else code = await receiver.finish(await receiver.run());
say(`done ${code} ${receiver.ring.received}`);
process.exit(code);
