/** How a worker stops: signals, the time that is given, what becomes of its tasks. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import { silent, Worker } from "../src/index.js";
import { FakeServer, PATIENCE_MS } from "./fake-server.js";
import { running } from "./running.js";

const PROGRAM = fileURLToPath(new URL("./program.js", import.meta.url));

let fake: FakeServer;
let folder: string;
let children: ChildProcess[];

beforeEach(async () => {
  fake = await FakeServer.open();
  folder = mkdtempSync(join(tmpdir(), "windlass-worker-"));
  children = [];
});
afterEach(async () => {
  children.forEach((child) => child.kill("SIGKILL"));
  rmSync(folder, { recursive: true });
  await fake.close();
});

function start(manners = "polite"): { child: ChildProcess; ended: Promise<[number | null, string]> } {
  const child = spawn(process.execPath, [PROGRAM, fake.url, join(folder, "gate"), manners]);
  children.push(child);
  let output = "";
  child.stdout.on("data", (data) => (output += String(data)));
  const ended = new Promise<[number | null, string]>((resolve) =>
    child.on("close", (code) => resolve([code, output])),
  );
  return { child, ended };
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal} lets what runs finish and takes nothing new`, async () => {
    const task = fake.enqueue("slow");
    const { child, ended } = start();
    await fake.until(() => fake.heartbeats.length > 0);
    child.kill(signal);
    // Heartbeats go on, polls do not: the one that waited is given up.
    const beats = fake.heartbeats.length;
    await fake.until(() => fake.heartbeats.length >= beats + 10 && fake.waiting === 0);
    const polls = fake.polls.length;
    const late = fake.enqueue("slow");
    await fake.until(() => fake.heartbeats.length >= beats + 20);
    assert.equal(fake.polls.length, polls);
    writeFileSync(join(folder, "gate"), "");
    assert.equal((await fake.reported(task)).body["output"], "finished");
    const [code, output] = await ended;
    assert.equal(code, 0);
    assert.match(output, /returned/);
    assert.equal(late.report, undefined);
  });
}

for (const manners of ["polite", "deaf"]) {
  test(`a second signal gives up what runs: ${manners}`, async () => {
    const task = fake.enqueue("slow");
    const { child, ended } = start(manners);
    await fake.until(() => fake.heartbeats.length > 0);
    child.kill("SIGTERM");
    const beats = fake.heartbeats.length;
    await fake.until(() => fake.heartbeats.length >= beats + 5);
    child.kill("SIGTERM");
    assert.equal((await ended)[0], 0);
    // Another worker gets it, as the same attempt.
    assert.equal(task.report, undefined);
  });
}

test("after the stop timeout attempts are given up", async () => {
  const worker = new Worker({ url: fake.url, logger: silent, stopTimeoutMs: 50 });
  let reason: string | undefined;
  worker.action("slow", (_, context) =>
    context.sleep(PATIENCE_MS).finally(() => (reason = context.stopReason)),
  );
  const task = fake.enqueue("slow");
  await running(worker, () => fake.until(() => fake.heartbeats.length > 0));
  assert.equal(reason, "the worker is stopping");
  assert.equal(task.report, undefined);
});

test("an idle worker stops at once and can run again", async () => {
  const worker = new Worker({ url: fake.url, logger: silent });
  worker.action("one", () => 1);
  for (const round of [1, 2]) {
    await running(worker, () => fake.until(() => fake.polls.length >= round));
  }
  await fake.until(() => fake.waiting === 0);
  const task = fake.enqueue("one");
  assert.equal((await running(worker, () => fake.reported(task))).body["output"], 1);
});

test("a process that is killed reports nothing, and another one does its task", async () => {
  const task = fake.enqueue("slow");
  const first = start();
  await fake.until(() => fake.heartbeats.length > 0);
  first.child.kill("SIGKILL");
  await first.ended;
  writeFileSync(join(folder, "gate"), "");
  await fake.until(() => fake.waiting === 0);
  // The server has given up the first one's lease.
  task.worker = undefined;
  const second = start();
  assert.equal((await fake.reported(task)).body["output"], "finished");
  second.child.kill("SIGTERM");
  assert.equal((await second.ended)[0], 0);
});
