/**
 * The TypeScript worker of the example: serves `ts.letter`. Plain JavaScript, so that it runs
 * without a build: `node worker.mjs`; WINDLASS_SERVER says where the server is.
 */

import { shape, Worker } from "windlass";

const worker = new Worker();

const parameters = shape.object({ customer: shape.text(), cents: shape.integer() });

worker.action(
  "ts.letter",
  { parameters, description: "Writes the letter to a customer." },
  ({ customer, cents }) => ({ text: `Dear ${customer}, please pay ${(cents / 100).toFixed(2)}.` }),
);

await worker.run();
