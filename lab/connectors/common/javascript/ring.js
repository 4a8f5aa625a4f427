// The ring between the receive path and the worker: 8 numbers per message in shared memory.
export const PLACES = 1 << 16;
export const ABSENT = -1n;
const WIDTH = 8;
const WRITTEN = 0, READ = 1, STOPPED = 2;

export class Ring {
  constructor(shared = null) {
    this.shared = shared ?? { cells: new SharedArrayBuffer(PLACES * WIDTH * 8), state: new SharedArrayBuffer(16) };
    this.cells = new BigInt64Array(this.shared.cells);
    this.state = new Int32Array(this.shared.state);
    this.received = 0;
    this.waits = 0;
  }

  // Counts run modulo 2^32, so a difference is right as long as it fits 32 bits.
  get filled() {
    return (Atomics.load(this.state, WRITTEN) - Atomics.load(this.state, READ)) | 0;
  }

  put(connection, feed, sequence, dueNs, sentNs, receivedNs, length, flags) {
    this.received += 1;
    if (this.filled >= PLACES) {
      this.waits += 1;
      while (this.filled >= PLACES && !Atomics.load(this.state, STOPPED)) {
        Atomics.wait(this.state, READ, Atomics.load(this.state, READ), 1);
      }
    }
    const written = Atomics.load(this.state, WRITTEN);
    const at = (written & (PLACES - 1)) * WIDTH;
    const { cells } = this;
    cells[at] = BigInt(connection);
    cells[at + 1] = feed;
    cells[at + 2] = sequence;
    cells[at + 3] = dueNs;
    cells[at + 4] = sentNs;
    cells[at + 5] = receivedNs;
    cells[at + 6] = BigInt(length);
    cells[at + 7] = BigInt(flags);
    Atomics.store(this.state, WRITTEN, (written + 1) | 0);
  }

  // Calls `store` with the cells of each message, at most `most`, and then frees their places.
  drain(most, store) {
    const count = Math.min(this.filled, most);
    const read = Atomics.load(this.state, READ);
    for (let n = 0; n < count; n += 1) {
      const at = ((read + n) & (PLACES - 1)) * WIDTH;
      store(this.cells.subarray(at, at + WIDTH));
    }
    Atomics.store(this.state, READ, (read + count) | 0);
    Atomics.notify(this.state, READ);
    return count;
  }

  // The receive path no longer waits for space.
  giveUp() {
    Atomics.store(this.state, STOPPED, 1);
  }
}
