/** The worker against the fake server: the plain cases. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Cancelled, currentContext, Permanent, Retriable, shape, silent, Skip, Worker } from "../src/index.js";
import type { WorkerOptions } from "../src/index.js";
import { FakeServer, PATIENCE_MS } from "./fake-server.js";
import type { Body } from "./fake-server.js";
import { running } from "./running.js";

let fake: FakeServer;

beforeEach(async () => {
  fake = await FakeServer.open();
});
afterEach(() => fake.close());

function worker(options: WorkerOptions = {}): Worker {
  return new Worker({ url: fake.url, logger: silent, ...options });
}

test("an action gets its parameters and its output is reported", async () => {
  const charges = worker({ token: () => "fresh", labels: ["gpu"] });
  const parameters = shape.object({
    customer: shape.text(),
    cents: shape.optional(shape.integer().describe("in cents")),
  });
  charges.action("billing.charge", { parameters, description: "Charges." }, (order, context) => {
    // The compiler knows the types of the members.
    const cents: number | undefined = order.cents;
    context.meta["bank"] = "first";
    context.resource({ system: "bank", type: "charge", id: "c-9" });
    return { customer: order.customer, cents: cents ?? 100, key: currentContext().idempotencyKey };
  });
  const task = fake.enqueue("billing.charge", { customer: "ada" });
  await running(charges, async () => {
    const { route, body } = await fake.reported(task);
    assert.equal(route, "complete");
    assert.deepEqual(body, {
      lease: "lease-1",
      output: { customer: "ada", cents: 100, key: "run-1/node" },
      meta: { bank: "first" },
      resources: [{ system: "bank", type: "charge", id: "c-9" }],
    });
  });
  const { waitMs, ...poll } = fake.polls[0] as Body;
  assert.ok(waitMs > 0 && waitMs <= 30_000);
  assert.deepEqual(poll, {
    protocol: 1,
    worker: charges.name,
    actions: [
      {
        actionType: "billing.charge",
        description: "Charges.",
        parametersSchema: {
          type: "object",
          properties: {
            customer: { type: "string" },
            cents: { type: "integer", description: "in cents" },
          },
          required: ["customer"],
          additionalProperties: false,
        },
      },
    ],
    slots: 10,
    holding: [],
    labels: ["gpu"],
  });
  assert.ok(fake.headers.every((headers) => headers.authorization === "Bearer fresh"));
});

const THROWN: [string, unknown, string, Body][] = [
  [
    "Retriable",
    new Retriable("busy", { afterMs: 1500, code: "BANK_BUSY", details: { queue: 3 } }),
    "fail",
    {
      code: "BANK_BUSY",
      message: "busy",
      retriable: true,
      retryAfterMs: 1500,
      details: { queue: 3 },
    },
  ],
  ["Permanent", new Permanent("no"), "fail", { code: "ACTION_FAILED", message: "no", retriable: false }],
  ["Skip", new Skip(), "skip", {}],
  [
    "an error",
    new TypeError("broken"),
    "fail",
    { code: "UNHANDLED_EXCEPTION", message: "TypeError: broken", retriable: true },
  ],
  ["a text", "no error", "fail", { code: "UNHANDLED_EXCEPTION", message: "string: no error" }],
  [
    "details that are not JSON",
    new Permanent("no", { details: { loop: globalThis } }),
    "fail",
    { details: { note: "the details of the error are not JSON" } },
  ],
];

for (const [name, thrown, route, expected] of THROWN) {
  test(`what a function throws is reported: ${name}`, async () => {
    const failing = worker();
    failing.action("a.b", () => {
      throw thrown;
    });
    const task = fake.enqueue("a.b");
    await running(failing, async () => {
      const report = await fake.reported(task);
      assert.equal(report.route, route);
      assert.deepEqual({ ...report.body, ...expected }, report.body);
    });
  });
}

test("parameters that do not fit fail for good with every problem", async () => {
  const charges = worker();
  const parameters = shape.object({
    customer: shape.text(),
    cents: shape.integer(),
    items: shape.list(shape.oneOf("a", "b")),
    table: shape.optional(shape.record(shape.nullable(shape.number()))),
  });
  charges.action("billing.charge", { parameters }, () => assert.fail("never called"));
  const bad = { cents: "many", items: ["a", "c"], table: { x: true }, color: "red" };
  const task = fake.enqueue("billing.charge", bad);
  await running(charges, async () => {
    const { route, body } = await fake.reported(task);
    assert.deepEqual([route, body["code"], body["retriable"]], ["fail", "PARAMETERS_INVALID", false]);
    assert.deepEqual(String(body["message"]).split("; ").sort(), [
      "$.cents: expected an integer, got text",
      "$.color: unknown key",
      "$.customer: required and missing",
      '$.items[1]: expected one of "a", "b", got text',
      "$.table.x: expected a number, got a boolean",
      "the known keys are: customer, cents, items, table",
    ]);
  });
});

for (const output of [NaN, () => 1, new Map([[1, 2]]), "\ud800", 10n]) {
  test(`an output that is not JSON fails for good: ${typeof output}`, async () => {
    const odd = worker();
    odd.action("a.b", () => ({ output }));
    const task = fake.enqueue("a.b");
    await running(odd, async () => {
      const { route, body } = await fake.reported(task);
      assert.deepEqual([route, body["code"], body["retriable"]], ["fail", "OUTPUT_NOT_JSON", false]);
    });
  });
}

test("no more attempts run at once than the concurrency", async () => {
  const two = worker({ concurrency: 2 });
  let [now, most] = [0, 0];
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  two.action("a.b", async () => {
    most = Math.max(most, (now += 1));
    await gate;
    now -= 1;
  });
  const tasks = Array.from({ length: 6 }, () => fake.enqueue("a.b"));
  await running(two, async () => {
    await fake.until(() => most === 2);
    open();
    await Promise.all(tasks.map((task) => fake.reported(task)));
  });
  assert.equal(most, 2);
  assert.ok(fake.polls.every((poll) => poll["slots"] + poll["holding"].length <= 2));
});

test("heartbeats carry progress", async () => {
  const slow = worker();
  slow.action("a.b", async (_, context) => {
    context.heartbeat({ done: 1 });
    while (fake.heartbeats.length < 3) {
      await context.sleep(5);
    }
  });
  const task = fake.enqueue("a.b");
  await running(slow, () => fake.reported(task));
  assert.deepEqual(fake.heartbeats[0], { lease: "lease-1", details: { done: 1 } });
  assert.deepEqual(fake.heartbeats[1], { lease: "lease-1" });
});

test("a request to stop is an exception in the function", async () => {
  const slow = worker();
  const seen: unknown[] = [];
  slow.action("a.b", async (_, context) => {
    try {
      await context.sleep(PATIENCE_MS);
    } catch (error) {
      seen.push(error instanceof Cancelled, context.stopReason);
      throw error;
    }
  });
  const task = fake.enqueue("a.b");
  await running(slow, async () => {
    await fake.until(() => fake.heartbeats.length > 0);
    task.stop = true;
    const { route, body } = await fake.reported(task);
    assert.deepEqual([route, body["code"]], ["fail", "STOPPED"]);
  });
  assert.deepEqual(seen, [true, "the server asked the attempt to stop"]);
});

test("fetch with the context's signal ends when the attempt is asked to stop", async () => {
  const slow = worker();
  fake.routes.set("GET /never", () => assert.fail("the answer is not waited for"));
  slow.action("a.b", (_, context) => {
    setImmediate(() => context.stop("the server asked the attempt to stop"));
    return fetch(`${fake.url}/api/v1/never`, { signal: context.signal }).then(() =>
      context.sleep(PATIENCE_MS),
    );
  });
  const task = fake.enqueue("a.b");
  await running(slow, async () => {
    assert.equal((await fake.reported(task)).body["code"], "STOPPED");
  });
});

test("a result that comes in spite of a stop is reported", async () => {
  const deaf = worker();
  deaf.action("a.b", async (_, context) => {
    await context.sleep(PATIENCE_MS).catch(() => undefined);
    return "done all the same";
  });
  const task = fake.enqueue("a.b");
  task.stop = true;
  await running(deaf, async () => {
    assert.equal((await fake.reported(task)).body["output"], "done all the same");
  });
});

test("an attempt that takes too long times out by the worker's clock", async () => {
  const slow = worker();
  slow.action("a.b", (_, context) => context.sleep(PATIENCE_MS));
  // The deadline is long past by this machine's clock, which must not matter.
  const task = fake.enqueue("a.b", {}, { timeoutMs: 50, deadline: "2001-01-01T00:00:00Z" });
  await running(slow, async () => {
    const { route, body } = await fake.reported(task);
    assert.deepEqual([route, body["code"], body["retriable"]], ["fail", "TIMEOUT", true]);
  });
});

test("a worker that is refused at its first poll says why", async () => {
  const reserved = worker();
  reserved.action("http.request", () => undefined);
  fake.fault("poll", 403, 1, "ACTION_RESERVED");
  await assert.rejects(reserved.run({ signals: false }), /ACTION_RESERVED/);
});

test("a worker says what is wrong with it", async () => {
  const empty = worker();
  await assert.rejects(empty.run(), /no actions/);
  empty.action("a.b", () => undefined);
  assert.throws(() => empty.action("a.b", () => undefined), /registered twice/);
  assert.throws(() => empty.action("a b", () => undefined), /not an action type/);
  assert.throws(() => worker({ url: "127.0.0.1:7400" }), /address of a server/);
  assert.throws(() => worker({ concurrency: 0 }), /at least 1/);
  assert.throws(() => new Retriable("x", { afterMs: NaN }), /milliseconds to wait/);
  assert.throws(() => new Permanent("x", { code: "two words" }), /not an error code/);
});
