/** The test kit, logging and traces. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { context as otelContext, propagation, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";

import { currentContext, Permanent, Retriable, shape, silent, Skip, Worker } from "../src/index.js";
import type { Logger } from "../src/index.js";
import { runAction } from "../src/testing.js";

function worker(logger: Logger = silent): Worker {
  return new Worker({ url: "http://127.0.0.1:1", logger });
}

test("an action runs as the engine would run it", async () => {
  const kit = worker();
  const parameters = shape.object({ x: shape.integer() });
  kit.action("a.b", { parameters }, ({ x }, context) => {
    context.heartbeat({ half: true });
    return { x, key: context.idempotencyKey, when: new Date(0) };
  });
  const result = await runAction(kit, "a.b", { x: 3 }, { idempotencyKey: "k" });
  assert.deepEqual(result, {
    status: "Succeeded",
    output: { x: 3, key: "k", when: "1970-01-01T00:00:00.000Z" },
    attempts: 1,
    meta: {},
    resources: [],
    progress: { half: true },
  });
  assert.equal((await runAction(kit, "a.b", { x: "3" })).code, "PARAMETERS_INVALID");
  await assert.rejects(runAction(kit, "a.c"), /no action "a\.c"; it has: a\.b/);
});

test("a parser of another library fits", async () => {
  const kit = worker();
  const parse = (value: unknown): { x: number } => {
    if (typeof (value as { x?: unknown }).x !== "number") {
      throw new Error("x: expected number");
    }
    return value as { x: number };
  };
  kit.action("a.b", { parameters: { schema: { type: "object" }, parse } }, ({ x }) => x + 1);
  assert.equal((await runAction(kit, "a.b", { x: 1 })).output, 2);
  const refused = await runAction(kit, "a.b", {});
  assert.deepEqual([refused.code, refused.message], ["PARAMETERS_INVALID", "x: expected number"]);
});

test("retriable failures are tried again under the same key", async () => {
  const kit = worker();
  const seen: [number, string][] = [];
  kit.action("a.b", (_, context) => {
    seen.push([context.attempt, context.idempotencyKey]);
    if (context.attempt < 3) {
      throw new Retriable("not yet", { afterMs: 60_000 });
    }
    return "done";
  });
  assert.equal((await runAction(kit, "a.b", {}, { maxAttempts: 5 })).attempts, 3);
  assert.deepEqual(
    seen.map(([attempt]) => attempt),
    [1, 2, 3],
  );
  assert.equal(new Set(seen.map(([, key]) => key)).size, 1);
  const failed = await runAction(kit, "a.b", {}, { maxAttempts: 2 });
  assert.deepEqual([failed.status, failed.afterMs, failed.attempts], ["Failed", 60_000, 2]);
});

test("permanent failures and skips are not tried again", async () => {
  const kit = worker();
  kit.action("permanent", () => {
    throw new Permanent("no", { code: "NO_SUCH_ACCOUNT" });
  });
  kit.action("skip", () => {
    throw new Skip();
  });
  const failed = await runAction(kit, "permanent", {}, { maxAttempts: 5 });
  assert.deepEqual([failed.code, failed.attempts], ["NO_SUCH_ACCOUNT", 1]);
  assert.equal((await runAction(kit, "skip")).status, "Skipped");
});

test("a test can cancel an attempt, and attempts time out", async () => {
  const kit = worker();
  kit.action("slow", (_, context) => context.sleep(30_000));
  const cancelled = await runAction(kit, "slow", {}, {
    onStart: (context) => setImmediate(() => context.stop("a person cancelled")),
  });
  assert.deepEqual([cancelled.status, cancelled.message], ["Cancelled", "a person cancelled"]);
  const late = await runAction(kit, "slow", {}, { timeoutMs: 10 });
  assert.deepEqual([late.code, late.retriable], ["TIMEOUT", true]);
});

test("log records carry the ids of the attempt", async () => {
  const records: unknown[][] = [];
  const keep = (...record: unknown[]): void => void records.push(record);
  const kit = worker({ debug: keep, info: keep, warn: keep, error: keep });
  kit.action("a.b", (_, context) => {
    context.log.info("charging", { cents: 5 });
    assert.equal(currentContext(), context);
  });
  await runAction(kit, "a.b", {}, { attempt: 2, node: "charge" });
  const [message, ids, details] = records[0] as [string, Record<string, unknown>, unknown];
  assert.deepEqual([message, ids["node"], ids["attempt"], details], ["charging", "charge", 2, { cents: 5 }]);
  assert.throws(() => currentContext(), /no action runs here/);
});

test("the span of an action continues the run's trace", async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register();
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const given = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, node: "charge" };
  const kit = worker();
  kit.action("a.b", { parameters: shape.object({ fails: shape.boolean() }) }, ({ fails }) => {
    if (fails) {
      throw new Permanent("no", { code: "NO" });
    }
    return trace.getActiveSpan()?.spanContext().traceId;
  });
  assert.equal((await runAction(kit, "a.b", { fails: false }, given)).output, traceId);
  assert.equal((await runAction(kit, "a.b", { fails: true }, given)).code, "NO");
  const [good, bad] = exporter.getFinishedSpans();
  assert.equal(good?.name, "action a.b");
  assert.equal(good?.parentSpanContext?.spanId, "b7ad6b7169203331");
  assert.equal(good?.attributes["windlass.node"], "charge");
  assert.deepEqual([good?.status.code, bad?.status.code], [0, 2]);
  await provider.shutdown();
  trace.disable();
  otelContext.disable();
  propagation.disable();
});
