// Repeats the echo test with the WebSocket engine of Artillery, and prints one JSON object: the
// times from sending a message to its echo, in microseconds, and the number of errors.
// Each virtual user has one connection and waits for an echo before it sends the next message.

import { once } from "node:events";
import { createRequire } from "node:module";

const core = createRequire(import.meta.url)("@artilleryio/int-core");
const number = (name) => Number(process.env[name]);
const connections = number("ECHO_CONNECTIONS");
const seconds = number("ECHO_SECONDS");
const perConnection = number("ECHO_RATE") / connections;
const payload = "x".repeat(number("ECHO_BYTES"));
const timesUs = [];
let errors = 0;

const script = {
  config: {
    target: process.env.ECHO_URL,
    // All virtual users arrive within one second.
    phases: [{ duration: 1, arrivalCount: connections }],
    processor: {
      begin: (context, _, done) => {
        context.vars.sentNs = process.hrtime.bigint();
        done();
      },
      end: (context, _, done) => {
        timesUs.push(Number(process.hrtime.bigint() - context.vars.sentNs) / 1e3);
        done();
      },
    },
  },
  scenarios: [
    {
      engine: "ws",
      flow: [
        {
          loop: [
            { function: "begin" },
            { send: { payload, match: { regexp: ".*", value: payload } } },
            { function: "end" },
            { think: 1 / perConnection },
          ],
          count: Math.max(1, Math.round(seconds * perConnection)),
        },
      ],
    },
  ],
};

await core.updateGlobalObject?.();
const runner = await core.runner.runner(script, null, { isAggregateReport: false }, undefined);
runner.on("stats", (stats) => {
  for (const [name, count] of Object.entries(stats.counters)) {
    if (name.startsWith("errors.") || name === "vusers.failed") errors += count;
  }
});
runner.run();
await once(runner, "done");

timesUs.sort((a, b) => a - b);
const quantile = (q) => timesUs[Math.min(timesUs.length - 1, Math.floor(q * timesUs.length))] ?? null;
const figures = { deliveries: timesUs.length, errors, p50_us: quantile(0.5), p99_us: quantile(0.99) };
process.stdout.write(`${JSON.stringify(figures)}\n`, () => process.exit(0));
