// The writer: a worker that stores what the receive path has put into the ring.
import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { hostname } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { now } from './clock.js';
import { ABSENT, Ring } from './ring.js';
import { openDatabase } from './sqlite.js';

const ROWS_MAX = 10_000;
const LOOK_MS = 50;
const environment = process.env;
const say = (line) => writeSync(1, line + '\n');
const orNull = (number) => (number === ABSENT ? null : number);

function runtime() {
  if (globalThis.Bun) return `Bun ${Bun.version}`;
  return globalThis.Deno ? `Deno ${Deno.version.deno}` : `Node ${process.versions.node}`;
}

class Capture {
  async open() {
    this.ring = new Ring(workerData.shared);
    this.payloads = [];
    this.captured = 0;
    this.stored = 0;
    closeSync(openSync(environment.LAB_CAPTURE, 'wx'));
    this.file = await openDatabase(environment.LAB_CAPTURE);
    this.isOpen = true;
    this.file.exec(readFileSync(environment.LAB_SCHEMA, 'utf8'));
    const insert = (table, columns) => this.file.prepare(`INSERT INTO ${table} VALUES (${Array(columns).fill('?')})`);
    this.insert = { run: insert('run', 2), event: insert('event', 9), payload: insert('payload', 2) };
    Object.assign(this.insert, { clock: insert('clock', 3), gap: insert('gap', 5), flush: insert('flush', 3) });
    this.insert.gc = insert('gc', 2);
    this.endGap = this.file.prepare('UPDATE gap SET to_ns = ? WHERE connection_id = ?');
    const names = ['run', 'connector', 'exchange', 'url', 'subscribe'];
    this.facts(Object.fromEntries(names.map((name) => [name, environment[`LAB_${name.toUpperCase()}`] ?? ''])));
    const { library, version } = workerData;
    this.facts({ contract: 1, language: 'JavaScript', library, library_version: version, host: hostname() });
    this.facts({ runtime_version: runtime(), started_ns: now() });
    this.clock();
  }

  facts(facts) {
    for (const [name, fact] of Object.entries(facts)) this.insert.run.run(name, String(fact));
  }

  clock() {
    // Date.now counts milliseconds, so its next step gives the exact time.
    const fromMs = Date.now();
    let beforeNs, realtimeMs;
    do {
      beforeNs = now();
      realtimeMs = Date.now();
    } while (realtimeMs === fromMs);
    this.insert.clock.run(beforeNs, BigInt(realtimeMs) * 1_000_000n, now());
  }

  store([connection, feed, sequence, dueNs, sentNs, receivedNs, length, flags]) {
    const id = (this.captured += 1);
    const numbers = [orNull(feed), orNull(sequence), orNull(dueNs), orNull(sentNs)];
    this.insert.event.run(id, connection, ...numbers, receivedNs, length, flags);
  }

  flush() {
    while (this.ring.filled > 0) {
      const before = this.captured;
      const beginNs = now();
      try {
        this.file.transact(() => this.ring.drain(ROWS_MAX, (cells) => this.store(cells)));
      } catch (error) {
        this.captured = before;
        throw error;
      }
      this.insert.flush.run(beginNs, now(), this.captured - before);
    }
    if (this.payloads.length === 0) return;
    const bodies = this.payloads.splice(0);
    this.file.transact(() => bodies.forEach((body) => this.insert.payload.run((this.stored += 1), body)));
  }

  note(message) {
    if (message.kind === 'payload') this.payloads.push(Buffer.from(new Uint8Array(message.shared)));
    else if (message.kind === 'open') {
      say(`open ${message.id} ${message.atNs}`);
      this.endGap.run(message.atNs, message.id - 1);
    } else if (message.kind === 'gap') {
      say(`gap ${message.id} ${message.reason}`);
      this.insert.gap.run(message.id, message.reason, message.code, message.atNs, null);
    } else if (message.kind === 'gc') {
      // A collection may be reported after the end.
      if (this.isOpen) this.insert.gc.run(message.beginNs, message.endNs);
    } else this.finish(message.facts);
  }

  finish(facts) {
    this.flush();
    const peak = /VmHWM:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1];
    this.facts({ ...facts, peak_memory_kb: peak });
    // Finished statements hold no lock that would stop the checkpoint.
    this.file.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    this.isOpen = false;
    this.file.close();
    parentPort.postMessage({ kind: 'finished' });
  }
}

let failure = null;

// Runs `step` and tells the receive path of the first error. After it nothing more is written.
function guarded(step) {
  if (failure) return;
  try {
    step();
  } catch (error) {
    fail(error);
  }
}

function fail(error) {
  failure = error.message;
  capture.ring?.giveUp();
  parentPort.postMessage({ kind: 'stop' });
}

const capture = new Capture();
try {
  await capture.open();
} catch (error) {
  fail(error);
}
parentPort.postMessage({ kind: 'ready', failure });
let nextSecondNs = now() + 1_000_000_000n;
const timer = setInterval(() => guarded(() => {
  capture.flush();
  if (existsSync(environment.LAB_EXIT_FILE)) parentPort.postMessage({ kind: 'stop' });
  if (now() < nextSecondNs) return;
  nextSecondNs += 1_000_000_000n;
  say(`alive ${capture.captured + Math.max(capture.ring.filled, 0)} ${capture.captured}`);
  capture.clock();
}), LOOK_MS);
parentPort.on('message', (message) => {
  guarded(() => capture.note(message));
  if (message.kind !== 'finish') return;
  clearInterval(timer);
  if (failure) parentPort.postMessage({ kind: 'finished', failure });
});
