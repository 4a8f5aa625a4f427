// A connector of the latency laboratory in JavaScript, by contracts/lab-connector.md. It runs in
// the folder of one connector, whose library.js has the WebSocket library: the names `name`,
// `version` and `open`. The receive path is in this thread. capture.js writes the file in a worker.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { pathToFileURL } from 'node:url';
import { now } from './clock.js';
import { ABSENT, Ring } from './ring.js';

const DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5, CAPTURE_ERROR = 6;
const NEEDED = ['URL', 'CAPTURE', 'SCHEMA', 'EXIT_FILE', 'RUN', 'CONNECTOR', 'EXCHANGE', 'ENVELOPE', 'PAYLOAD', 'RECONNECT'];
const GIVE_UP_MS = 10_000;
const environment = process.env;
const library = await import(new URL('library.js', pathToFileURL(`${process.cwd()}/`)));

// Standard output is written at once, because process.exit does not wait for a pipe.
const say = (line) => writeSync(1, line + '\n');

async function shakeHands() {
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) {
    if (line === 'clock') say(`clock ${now()}`);
    if (line === 'go') {
      process.stdin.unref?.();
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
    this.stopped = new Promise((resolve) => {
      this.noteStop = resolve;
    });
    this.collections = {};
    const workerData = { shared: this.ring.shared, library: library.name, version: library.version };
    this.worker = new Worker(new URL('capture.js', import.meta.url), { workerData });
    if (PerformanceObserver.supportedEntryTypes?.includes('gc')) this.observeCollections();
    this.answers = [];
    this.worker.on('message', (message) => {
      if (message.kind === 'stop') this.stop();
      else this.answers.shift()?.(message);
    });
  }

  answer() {
    return new Promise((resolve) => this.answers.push(resolve));
  }

  // Notes each pause of the garbage collector. Entries count milliseconds from the start of the
  // process.
  observeCollections() {
    this.collections = { gc_count: 0, gc_pause_ns: 0 };
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
  }

  // `data` is a Buffer, or a string if the library decodes text. The library has read `receivedNs`
  // first.
  take(data, isBinary, receivedNs) {
    if (this.stopping) return;
    const isText = typeof data === 'string';
    const length = isText ? Buffer.byteLength(data) : data.length;
    const part = (from, to) => (isText ? data.slice(from, to) : data.toString('latin1', from, to));
    let flags = isBinary ? 1 : 0;
    let feed = ABSENT, sequence = ABSENT, dueNs = ABSENT, sentNs = ABSENT;
    if (this.hasEnvelope && !isBinary && length >= 108 && part(0, 8) === '{"seq":"') {
      sequence = BigInt(part(8, 27));
      dueNs = BigInt(part(39, 58));
      sentNs = BigInt(part(71, 90));
      feed = BigInt(part(100, 106));
    } else flags |= 2;
    // The copy belongs to the message, because a library may use its receive buffer again.
    if (this.keepsPayload) {
      // In shared memory, because Deno needs half a minute to send an array of 16 MiB to a worker.
      const shared = new SharedArrayBuffer(length);
      new Uint8Array(shared).set(isText ? Buffer.from(data) : data);
      this.worker.postMessage({ kind: 'payload', shared });
    }
    this.ring.put(this.connectionId, feed, sequence, dueNs, sentNs, receivedNs, length, flags);
  }

  // Opens a connection. `ended` of the result is a promise of why it ended.
  open() {
    return new Promise((resolve, reject) => {
      let end;
      const ended = new Promise((resolveEnd) => {
        end = (reason, code, text) => resolveEnd({ reason, code, text, atNs: now() });
      });
      this.link = library.open(environment.LAB_URL, environment.LAB_CA, {
        now,
        opened: (send) => {
          this.connectionId += 1;
          this.worker.postMessage({ kind: 'open', id: this.connectionId, atNs: now() });
          if (environment.LAB_SUBSCRIBE) send(environment.LAB_SUBSCRIBE);
          resolve({ ended });
        },
        message: (data, isBinary, receivedNs) => this.take(data, isBinary, receivedNs),
        failed: (error) => reject(error),
        closed: (code) => end('close', code, 'close frame'),
        violated: (text) => end('protocol', null, text),
        lost: (text) => {
          end('lost', null, text);
          reject(new Error(text));
        },
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
      const { reason, code, text, atNs } = await Promise.race([connection.ended, this.stopped]);
      if (this.stopping || code === 1000) return DONE;
      console.error(`connection ${this.connectionId} ended: ${reason} ${code ?? ''} ${text}`);
      this.worker.postMessage({ kind: 'gap', id: this.connectionId, reason, code, atNs });
      if (environment.LAB_RECONNECT !== '1') return reason === 'protocol' ? PROTOCOL_ERROR : REMOTE_CLOSE;
      connection = await this.reopen();
    }
    return this.stopping ? DONE : CONNECT_FAILURE;
  }

  stop() {
    this.stopping = true;
    this.link?.stop();
    this.noteStop({});
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
