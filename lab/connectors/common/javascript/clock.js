// CLOCK_MONOTONIC in nanoseconds. The clocks of Bun and Deno begin with the process, so they call
// the C library.
const CLOCK_MONOTONIC = 1;

async function readClock() {
  const time = new BigInt64Array(2);
  if (globalThis.Bun) {
    const { dlopen, ptr } = await import('bun:ffi');
    const { symbols } = dlopen('libc.so.6', { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } });
    const pointer = ptr(time);
    return () => {
      symbols.clock_gettime(CLOCK_MONOTONIC, pointer);
      return time[0] * 1_000_000_000n + time[1];
    };
  }
  if (globalThis.Deno) {
    const symbol = { clock_gettime: { parameters: ['i32', 'buffer'], result: 'i32' } };
    const { symbols } = Deno.dlopen('libc.so.6', symbol);
    return () => {
      symbols.clock_gettime(CLOCK_MONOTONIC, time);
      return time[0] * 1_000_000_000n + time[1];
    };
  }
  return process.hrtime.bigint;
}

export const now = await readClock();
