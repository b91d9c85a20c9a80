/** A worker as a program of its own, for the tests of signals. */

import { existsSync } from "node:fs";

import { Worker } from "../src/index.js";

const [, , url = "", gate = "", manners = ""] = process.argv;
const worker = new Worker({ url, concurrency: 2 });
worker.action("slow", async (_, context) => {
  while (!existsSync(gate)) {
    await context.sleep(10).catch((error: unknown) => {
      if (manners === "polite") {
        throw error;
      }
      return new Promise((resolve) => setTimeout(resolve, 10));
    });
  }
  return "finished";
});
await worker.run();
console.log("returned");
process.exit(0);
