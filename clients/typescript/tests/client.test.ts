/** The client against the fake server. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Client } from "../src/index.js";
import type { Event } from "../src/index.js";
import { error, FakeServer } from "./fake-server.js";
import type { Body } from "./fake-server.js";

const RUN = "0192-run";
const END = ["event: end", "data: {}", ""];

let fake: FakeServer;
let client: Client;

beforeEach(async () => {
  fake = await FakeServer.open();
  client = new Client({ url: `${fake.url}/`, token: "secret" });
});
afterEach(() => fake.close());

function execution(status: string, more: Body = {}): Body {
  const shape = { executionId: RUN, workflowId: "flow", version: 2, status };
  return { ...shape, output: { x: 1 }, error: null, nodes: {}, ...more };
}

function event(position: number, kind = "NodeSucceeded"): string[] {
  const data = JSON.stringify({ v: 1, position, at: "", level: "info", category: "", kind, data: {} });
  return [`event: ${kind}`, `id: ${position}`, `data: ${data}`, ""];
}

test("a run is published, started and its result fetched", async () => {
  const bodies: Body[] = [];
  const keep = (answer: unknown) => (body: Body): [number, unknown] => {
    bodies.push(body);
    return [202, answer];
  };
  const statuses = ["Running", "Succeeded"];
  fake.routes.set("POST /api/v1/workflows", keep({ workflowId: "flow", version: 2, created: true }));
  fake.routes.set(
    "POST /api/v1/workflows/flow/execute",
    keep({ executionId: RUN, status: "Pending", existing: false }),
  );
  fake.routes.set(`GET /api/v1/executions/${RUN}`, () => [200, execution(statuses.shift() ?? "")]);
  fake.streams = [[...event(1), ...END]];
  const definition = { id: "flow", nodes: [{ id: "n", actionType: "core.echo" }] };
  assert.equal((await client.publish(definition)).version, 2);
  const started = await client.start("flow", { cents: 5 }, { labels: { team: "x" } });
  assert.deepEqual(await client.result(started.executionId, { timeoutMs: 30_000 }), { x: 1 });
  assert.deepEqual(bodies[0], definition);
  const { requestId, ...rest } = bodies[1] as Body;
  assert.equal(requestId.length, 36);
  assert.deepEqual(rest, { trigger: { cents: 5 }, labels: { team: "x" } });
  assert.ok(fake.headers.every((headers) => headers.authorization === "Bearer secret"));
});

test("a start that was not answered is repeated with the same id", async () => {
  const ids: string[] = [];
  fake.routes.set("POST /api/v1/workflows/flow/execute", (body) => {
    ids.push(body["requestId"]);
    return [202, { executionId: RUN, status: "Pending", existing: ids.length > 1 }];
  });
  fake.fault("execute", "drop-after");
  fake.fault("execute", 503);
  assert.ok((await client.start("flow")).existing);
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
});

test("commands carry a key", async () => {
  const bodies: Record<string, Body> = {};
  for (const name of ["signal", "cancel", "pause", "resume", "reattempt"]) {
    fake.routes.set(`POST /api/v1/executions/${RUN}/${name}`, (body) => {
      bodies[name] = body;
      return [200, { executionId: RUN, workflowId: "flow", status: "Running" }];
    });
  }
  await client.signal(RUN, "approved", { by: "sales" });
  await client.cancel(RUN, "recall");
  await client.pause(RUN);
  await client.resume(RUN);
  await client.reattempt(RUN, ["charge"]);
  assert.deepEqual(bodies, {
    signal: { name: "approved", payload: { by: "sales" } },
    cancel: { reason: "recall" },
    pause: {},
    resume: {},
    reattempt: { nodes: ["charge"] },
  });
  assert.equal(new Set(fake.headers.map((headers) => headers["idempotency-key"])).size, 5);
});

test("events go on after a lost connection, each once", async () => {
  fake.streams = [
    [": ", "", ...event(1), ...event(2), "event: lagged", "data: {}", ""],
    [...event(2), ...event(3), "event: draining", "data: {}", ""],
    event(4, "RunFinished").slice(0, 3),
    [...event(4, "RunFinished"), ...END],
  ];
  const found: Event[] = [];
  for await (const each of client.events(RUN)) {
    found.push(each);
  }
  assert.deepEqual(
    found.map((each) => each.position),
    [1, 2, 3, 4],
  );
  assert.deepEqual(
    fake.headers.map((headers) => headers["last-event-id"]),
    ["0", "2", "3", "3"],
  );
});

test("errors say what the server said", async () => {
  await assert.rejects(client.execution("none"), { status: 404, code: "NOT_FOUND" });
  const failed = execution("Failed", { error: { code: "NODE_FAILED", message: "charge failed" } });
  fake.routes.set(`GET /api/v1/executions/${RUN}`, () => [200, failed]);
  await assert.rejects(client.result(RUN), /charge failed/);
});

test("what is not repeatable is sent once", async () => {
  let sent = 0;
  fake.routes.set("POST /api/v1/hooks", () => {
    sent += 1;
    return [503, error("STORE_FULL")];
  });
  const request = { method: "POST", path: "/api/v1/hooks", body: { id: "x" } };
  await assert.rejects(client.request(request), /STORE_FULL/);
  assert.equal(sent, 1);
});

test("waiting ends with its time", async () => {
  fake.routes.set(`GET /api/v1/executions/${RUN}`, () => [200, execution("Running")]);
  await assert.rejects(client.wait(RUN, { timeoutMs: 50 }), /is Running after 50 ms/);
});

test("a server that does not answer is named", async () => {
  const lost = new Client({ url: "http://127.0.0.1:9", retryMs: 300 });
  await assert.rejects(lost.execution(RUN), /no answer from http:\/\/127\.0\.0\.1:9/);
});
