/** Workers that end with their test. */

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import type { Worker } from "../src/index.js";
import { PATIENCE_MS } from "./fake-server.js";

/** Runs the worker during the work; it has stopped by itself when this ends. */
export async function running<T>(worker: Worker, work: () => Promise<T>): Promise<T> {
  const served = worker.run({ signals: false });
  // It is looked at below; until then its failure must not end the process.
  served.catch(() => undefined);
  try {
    return await work();
  } finally {
    worker.stop();
    const late = new AbortController();
    const bound = sleep(PATIENCE_MS, "late", { signal: late.signal }).catch(() => "ended");
    const ended = await Promise.race([served.then(() => "ended"), bound]);
    late.abort();
    assert.equal(ended, "ended", "the worker does not stop");
  }
}
