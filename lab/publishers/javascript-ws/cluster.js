// One process per core, with the module `cluster` of Node. The primary process distributes new
// connections. Each worker publishes to its own clients, on its own schedule.

import cluster from "node:cluster";
import { availableParallelism } from "node:os";
import { serve, writeReadyFile } from "./publisher.js";

if (cluster.isPrimary) {
  const workers = availableParallelism();
  let listening = 0;
  cluster.on("listening", (_, address) => {
    listening += 1;
    if (listening === workers) writeReadyFile(process.env.LAB_READY_FILE, address);
  });
  // A worker that ends would leave its clients without a server, so the run must fail.
  cluster.on("exit", (_, code) => process.exit(code || 1));
  for (let i = 0; i < workers; i++) cluster.fork();
} else {
  await serve();
}
