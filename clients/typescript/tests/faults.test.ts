/** The worker against a network and a server that fail: nothing is lost, nothing runs twice. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Permanent, silent, Worker } from "../src/index.js";
import { FakeServer, PATIENCE_MS } from "./fake-server.js";
import { running } from "./running.js";

let fake: FakeServer;
let worker: Worker;
let calls: number;

beforeEach(async () => {
  fake = await FakeServer.open();
  worker = new Worker({ url: fake.url, logger: silent });
  calls = 0;
  worker.action("count", () => (calls += 1));
});
afterEach(() => fake.close());

test("a task whose poll was not answered comes again", async () => {
  fake.fault("poll", "drop-after");
  const task = fake.enqueue("count");
  const { route, body } = await running(worker, () => fake.reported(task));
  assert.deepEqual([route, body["lease"], calls], ["complete", "lease-2", 1]);
  assert.deepEqual(fake.polls[1]?.["holding"], []);
});

for (const what of ["drop-before", 503, 500, 502, 429, 401] as const) {
  test(`polls are repeated after failures: ${what}`, async () => {
    await running(worker, async () => {
      await fake.reported(fake.enqueue("count"));
      fake.fault("poll", what, 2);
      const polls = fake.polls.length;
      await fake.until(() => fake.polls.length > polls + 1);
      await fake.reported(fake.enqueue("count"));
    });
    assert.equal(calls, 2);
  });
}

for (const what of ["drop-before", "drop-after", 503, 500, 429, 401, 404] as const) {
  test(`a report is repeated until it is recorded: ${what}`, async () => {
    // 404 without a code of the server is a proxy's.
    fake.fault("complete", what, 3, what === 404 ? "HTTP" : "STORE_FULL");
    const task = fake.enqueue("count");
    await running(worker, async () => {
      await fake.until(() => fake.reports.length >= (what === "drop-after" ? 4 : 1));
      await fake.reported(task);
    });
    assert.equal(calls, 1);
    assert.ok(fake.reports.every(({ body }) => body["output"] === 1));
    assert.ok(fake.heartbeats.length > 0, "the lease was kept meanwhile");
  });
}

for (const code of ["LEASE_LOST", "TASK_ENDED"]) {
  test(`an attempt whose lease is lost stops and reports nothing: ${code}`, async () => {
    let reason: string | undefined;
    worker.action("slow", async (_, context) => {
      await context.sleep(PATIENCE_MS).finally(() => (reason = context.stopReason));
    });
    const task = fake.enqueue("slow");
    task.lost = code;
    await running(worker, async () => {
      await fake.until(() => reason);
      // The slot is free again and the worker goes on.
      await fake.until(() => fake.polls.at(-1)?.["holding"].length === 0);
    });
    assert.match(reason ?? "", new RegExp(code));
    assert.deepEqual(fake.reports, []);
  });

  test(`a report that is refused for its lease is not repeated: ${code}`, async () => {
    fake.heartbeatMs = 60_000;
    const task = fake.enqueue("count");
    task.lost = code;
    await running(worker, () => fake.until(() => calls === 1 && fake.polls.length >= 4));
    assert.equal(fake.reports.length, 1);
    assert.deepEqual(fake.polls.at(-1)?.["holding"], []);
  });
}

test("a task that comes again while it runs goes on under the new lease", async () => {
  fake.heartbeatMs = 60_000;
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  worker.action("slow", async () => {
    calls += 1;
    await gate;
    return "once";
  });
  const task = fake.enqueue("slow");
  await running(worker, async () => {
    await fake.until(() => calls === 1 && fake.polls.at(-1)?.["holding"][0] === task.taskId);
    task.worker = undefined;
    await fake.until(() => task.leases.length === 2);
    // Its answer has arrived when the worker polls the next time.
    const polls = fake.polls.length;
    await fake.until(() => fake.polls.length > polls);
    open();
    const { body } = await fake.reported(task);
    assert.deepEqual([body["lease"], body["output"], calls], ["lease-2", "once", 1]);
  });
});

test("a lost task that comes back to a function that did not stop is reported", async () => {
  let stopped = false;
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  worker.action("deaf", async (_, context) => {
    calls += 1;
    await context.sleep(PATIENCE_MS).catch(() => undefined);
    stopped = true;
    await gate;
    return "all the same";
  });
  fake.fault("heartbeat", 409, 1, "LEASE_LOST");
  const task = fake.enqueue("deaf");
  await running(worker, async () => {
    await fake.until(() => stopped);
    task.worker = undefined;
    // Heartbeats go on under the new lease.
    await fake.until(() => fake.heartbeats.some((body) => body["lease"] === "lease-2"));
    open();
    assert.equal((await fake.reported(task)).body["output"], "all the same");
  });
  assert.equal(calls, 1);
});

test("a failure that the server refuses is told without its details", async () => {
  worker.action("failing", () => {
    throw new Permanent("no", { code: "NO", details: { much: "too much" } });
  });
  fake.fault("fail", 413, 1, "BODY_TOO_LARGE");
  const task = fake.enqueue("failing");
  const { body } = await running(worker, () => fake.reported(task));
  assert.deepEqual(body, { lease: "lease-1", code: "NO", message: "no", retriable: false });
});

test("a report that a new lease overtakes is sent again under it", async () => {
  fake.heartbeatMs = 60_000;
  const task = fake.enqueue("count");
  task.relet = true;
  const { body } = await running(worker, () => fake.reported(task));
  assert.deepEqual([body["lease"], body["output"], calls], ["lease-2", 1, 1]);
  assert.deepEqual(
    fake.reports.map((each) => each.body["lease"]),
    ["lease-1", "lease-2"],
  );
});

for (const [status, code, expected] of [
  [413, "BODY_TOO_LARGE", "OUTPUT_LIMIT"],
  [422, "BODY_INVALID", "OUTPUT_REFUSED"],
] as const) {
  test(`an output that the server refuses fails the attempt: ${status}`, async () => {
    fake.fault("complete", status, 1, code);
    const task = fake.enqueue("count");
    const { route, body } = await running(worker, () => fake.reported(task));
    assert.deepEqual([route, body["code"], body["retriable"]], ["fail", expected, false]);
    assert.ok(body["message"].includes(code));
  });
}

test("heartbeats survive failures of the server", async () => {
  worker.action("slow", async (_, context) => {
    while (fake.heartbeats.length < 2) {
      await context.sleep(5);
    }
    return "kept";
  });
  for (const what of ["drop-before", "drop-after", 503, 500] as const) {
    fake.fault("heartbeat", what);
  }
  const task = fake.enqueue("slow");
  const { body } = await running(worker, () => fake.reported(task));
  assert.equal(body["output"], "kept");
});

test("half a task counts as a lost answer", async () => {
  const task = fake.enqueue("count", {}, { lease: 7 });
  await running(worker, async () => {
    await fake.until(() => fake.polls.length >= 2);
    delete task.extra["lease"];
    await fake.reported(task);
  });
  assert.equal(calls, 1);
});
