/** The worker and the client against the real server that WINDLASS_BINARY names. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { Client, Permanent, Retriable, shape, silent, Skip, Worker } from "../src/index.js";
import type { Definition, Execution } from "../src/index.js";
import { PATIENCE_MS } from "./fake-server.js";
import { running } from "./running.js";

const binary = process.env["WINDLASS_BINARY"];
let folder: string;
let port: number;
let server: ChildProcess;
let client: Client;
let worker: Worker;
let workflows = 0;

before(async () => {
  // A missing server fails the tests: nothing is left out in silence.
  assert.ok(binary, "set WINDLASS_BINARY to a windlass binary, or run cargo xtask clients");
  folder = mkdtempSync(join(tmpdir(), "windlass-server-"));
  port = await freePort();
  await start();
});
after(async () => {
  await end("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  const url = `http://127.0.0.1:${port}`;
  client = new Client({ url });
  worker = new Worker({ url, logger: silent });
});
afterEach(() => worker.halt());

async function start(): Promise<void> {
  server = spawn(
    binary ?? "",
    ["serve", "--listen", `127.0.0.1:${port}`, "--json", "--data-dir", join(folder, "data")],
    {
      cwd: folder,
      env: { ...process.env, WINDLASS_RATE_PER_MINUTE: "0", WINDLASS_LOG: "error" },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  assert.ok(server.stdout);
  for await (const line of createInterface({ input: server.stdout })) {
    assert.ok((JSON.parse(line) as { url: string }).url);
    return;
  }
  assert.fail("the server did not start");
}

async function end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  const gone = new Promise((resolve) => server.once("exit", resolve));
  if (server.exitCode === null && server.kill(signal)) {
    await gone;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port: found } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return found;
}

async function begin(nodes: Definition["nodes"], trigger?: unknown): Promise<string> {
  const { workflowId } = await client.publish({ id: `flow-${(workflows += 1)}`, nodes });
  return (await client.start(workflowId, trigger)).executionId;
}

async function ended(nodes: Definition["nodes"], trigger?: unknown): Promise<Execution> {
  return client.wait(await begin(nodes, trigger), { timeoutMs: PATIENCE_MS });
}

function nodeOf(execution: Execution, id = "n"): Record<string, any> {
  return execution.nodes[id] as Record<string, any>;
}

test("a node is served and its output recorded", async () => {
  const parameters = shape.object({
    left: shape.integer(),
    right: shape.optional(shape.integer()),
  });
  const description = "Adds two numbers.";
  worker.action("ts.add", { parameters, description }, ({ left, right = 1 }) => ({
    sum: left + right,
  }));
  await running(worker, async () => {
    const action = { id: "n", actionType: "ts.add", parameters: { left: "{{ trigger.x }}" } };
    const execution = await ended([action], { x: 41 });
    assert.deepEqual(nodeOf(execution)["output"], { sum: 42 });
    const refused = await ended([action], { x: "many" });
    assert.equal(nodeOf(refused)["error"].code, "PARAMETERS_INVALID");
    // The type is declared by now: a literal that does not fit is refused at once.
    const literal = { ...action, parameters: { left: "many" } };
    await assert.rejects(begin([literal]), { code: "DEFINITION_INVALID" });
    const workers = await client.request({ method: "GET", path: "/api/v1/workers" });
    assert.ok(JSON.stringify(workers).includes(worker.name));
  });
});

test("retries, permanent failures and skips", async () => {
  const attempts: number[] = [];
  worker.action("ts.flaky", (_, context) => {
    attempts.push(context.attempt);
    if (context.attempt < 3) {
      throw new Retriable("not yet", { afterMs: 10 });
    }
    return "done";
  });
  worker.action("ts.permanent", () => {
    throw new Permanent("never", { code: "NO_SUCH_THING" });
  });
  worker.action("ts.skip", () => {
    throw new Skip();
  });
  const policies = { retry: { maxAttempts: 5, baseDelayMs: 1 } };
  await running(worker, async () => {
    const execution = await ended([
      { id: "flaky", actionType: "ts.flaky", policies },
      { id: "permanent", actionType: "ts.permanent", policies },
      { id: "skip", actionType: "ts.skip" },
    ]);
    assert.equal(nodeOf(execution, "flaky")["output"], "done");
    assert.deepEqual(attempts, [1, 2, 3]);
    assert.equal(nodeOf(execution, "permanent")["error"].code, "NO_SUCH_THING");
    assert.equal(nodeOf(execution, "permanent")["attempts"], 1);
    assert.equal(nodeOf(execution, "skip")["status"], "Skipped");
  });
});

test("cancelling a run stops its function", async () => {
  let begun = (): void => undefined;
  let stopped = (): void => undefined;
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  const hasStopped = new Promise<void>((resolve) => (stopped = resolve));
  worker.action("ts.slow", async (_, context) => {
    begun();
    await context.sleep(PATIENCE_MS).finally(stopped);
  });
  await running(worker, async () => {
    const run = await begin([{ id: "n", actionType: "ts.slow" }]);
    await hasBegun;
    await client.cancel(run, "a test");
    await hasStopped;
    const execution = await client.wait(run, { timeoutMs: PATIENCE_MS });
    assert.equal(execution.status, "Cancelled");
  });
});

test("a worker outlives a server that is killed", async () => {
  let begun = (): void => undefined;
  let goOn = (): void => undefined;
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  worker.action("ts.long", async () => {
    begun();
    await gate;
    return "finished";
  });
  await running(worker, async () => {
    const run = await begin([{ id: "n", actionType: "ts.long" }]);
    await hasBegun;
    await end("SIGKILL");
    goOn();
    await start();
    const execution = await client.wait(run, { timeoutMs: 60_000 });
    assert.equal(nodeOf(execution)["output"], "finished", JSON.stringify(execution));
    assert.equal(nodeOf(execution)["attempts"], 1);
  });
});

test("reserved types are refused", async () => {
  worker.action("http.request", () => undefined);
  await assert.rejects(worker.run({ signals: false }), /ACTION_RESERVED/);
});

test("the client follows and signals", async () => {
  const run = await begin([
    { id: "approve", waitForSignal: { name: "approved" } },
    { id: "after", actionType: "core.echo", dependsOn: ["approve"] },
  ]);
  const kinds: string[] = [];
  for await (const event of client.events(run)) {
    kinds.push(event.kind);
    if (event.kind === "NodeWaiting") {
      await client.signal(run, "approved", { by: "sales" });
    }
  }
  assert.equal(kinds.at(-1), "RunFinished");
  assert.equal((await client.wait(run)).status, "Succeeded");
});
