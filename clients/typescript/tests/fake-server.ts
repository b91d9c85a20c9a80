/**
 * A server in the wire format of the worker protocol, with faults on request. It keeps what it
 * was sent, so that tests wait for facts instead of for time to pass.
 */

import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Long enough for any machine; a test that needs it has failed. */
export const PATIENCE_MS = 30_000;

/** How long polls wait; shorter than asked for, so that tests see what the next one holds. */
const POLL_MS = 200;

export type Body = Record<string, any>;

export interface FakeTask {
  readonly taskId: string;
  readonly actionType: string;
  readonly parameters: unknown;
  readonly extra: Body;
  readonly leases: string[];
  worker?: string | undefined;
  /** The first report that was recorded. */
  report?: { route: string; body: Body };
  stop?: boolean;
  lost?: string;
  /** Whether the first report comes while the task is handed out again, to the same worker. */
  relet?: boolean;
}

interface Fault {
  readonly route: string;
  times: number;
  /** Not carried out; carried out and not answered; or a status. */
  readonly what: "drop-before" | "drop-after" | number;
  readonly code: string | undefined;
}

export class FakeServer {
  readonly tasks = new Map<string, FakeTask>();
  readonly polls: Body[] = [];
  readonly heartbeats: Body[] = [];
  readonly reports: { route: string; body: Body }[] = [];
  readonly headers: IncomingMessage["headers"][] = [];
  /** Answers of other routes by method and path. */
  readonly routes = new Map<string, (body: Body) => [number, unknown]>();
  /** Each connection of an event stream takes the next list of lines. */
  streams: string[][] = [];
  heartbeatMs = 20;
  waiting = 0;
  readonly #faults: Fault[] = [];
  #closing = false;
  #server: Server | undefined;

  static async open(): Promise<FakeServer> {
    const fake = new FakeServer();
    const server = createServer((request, response) => void fake.#handle(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    fake.#server = server;
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server?.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  enqueue(actionType: string, parameters: unknown = {}, extra: Body = {}): FakeTask {
    const taskId = `run-1/node-${this.tasks.size}/1`;
    const task: FakeTask = { taskId, actionType, parameters, extra, leases: [] };
    this.tasks.set(taskId, task);
    return task;
  }

  fault(route: string, what: Fault["what"], times = 1, code?: string): void {
    this.#faults.push({ route, what, times, code });
  }

  /** Waits until the fact is true, and gives it. */
  async until<T>(fact: () => T | undefined | false): Promise<T> {
    const ends = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = fact();
      if (found) {
        return found;
      }
      if (performance.now() > ends) {
        throw new Error(`waited in vain; reports: ${JSON.stringify(this.reports)}`);
      }
      await sleep(3);
    }
  }

  reported(task: FakeTask): Promise<{ route: string; body: Body }> {
    return this.until(() => task.report);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    this.headers.push(request.headers);
    let text = "";
    for await (const piece of request) {
      text += String(piece);
    }
    if (path.endsWith("/events")) {
      response.writeHead(200, { "Content-Type": "text/event-stream", Connection: "close" });
      response.end((this.streams.shift() ?? []).map((line) => `${line}\n`).join(""));
      return;
    }
    const route = path.split("/").at(-1) ?? "";
    const fault = this.#faults.find((each) => each.route === route && each.times > 0);
    if (fault) {
      fault.times -= 1;
    }
    if (fault?.what === "drop-before") {
      request.socket.destroy();
    } else if (typeof fault?.what === "number") {
      send(response, fault.what, fault.code === "HTTP" ? "not ours" : error(fault.code ?? "FULL"));
    } else {
      const body = text ? (JSON.parse(text) as Body) : {};
      const [status, answer] = await this.#carryOut(request.method ?? "", path, route, body);
      if (fault || this.#closing) {
        request.socket.destroy();
      } else {
        send(response, status, answer);
      }
    }
  }

  async #carryOut(
    method: string,
    path: string,
    route: string,
    body: Body,
  ): Promise<[number, unknown]> {
    if (path === "/api/v1/workers/poll") {
      return [200, { tasks: await this.#poll(body) }];
    }
    const task = /^\/api\/v1\/workers\/tasks\/([^/]+)\//.exec(path);
    if (task) {
      const found = this.tasks.get(decodeURIComponent(task[1] ?? ""));
      if (found?.relet && route !== "heartbeat") {
        await this.#relet(found);
      }
      return this.#ofTask(found, route, body);
    }
    return this.routes.get(`${method} ${path}`)?.(body) ?? [404, error("NOT_FOUND")];
  }

  /** Hands the task out again; its answer has arrived when the worker polls after it. */
  async #relet(task: FakeTask): Promise<void> {
    task.relet = false;
    task.worker = undefined;
    await this.until(() => task.leases.length === 2);
    const polls = this.polls.length;
    await this.until(() => this.polls.length > polls);
  }

  async #poll(body: Body): Promise<Body[]> {
    this.polls.push(body);
    this.waiting += 1;
    const ends = performance.now() + POLL_MS;
    for (;;) {
      const tasks = this.#handOut(body);
      if (tasks.length > 0 || this.#closing || performance.now() > ends) {
        this.waiting -= 1;
        return tasks;
      }
      await sleep(3);
    }
  }

  #handOut(body: Body): Body[] {
    const served = new Set((body["actions"] as Body[]).map((each) => each["actionType"]));
    const found: Body[] = [];
    for (const task of this.tasks.values()) {
      const own = task.worker === body["worker"] && !body["holding"].includes(task.taskId);
      // One that is lost was handed out once and is another worker's now.
      const free = (task.worker === undefined || own) && !(task.lost && task.leases.length > 0);
      if (found.length < body["slots"] && free && served.has(task.actionType) && !task.report) {
        found.push(this.#lease(task, body["worker"]));
      }
    }
    return found;
  }

  #lease(task: FakeTask, worker: string): Body {
    task.worker = worker;
    task.leases.push(`lease-${task.leases.length + 1}`);
    return {
      taskId: task.taskId,
      lease: task.leases.at(-1),
      executionId: "run-1",
      workflowId: "flow",
      version: 1,
      node: task.taskId.split("/")[1],
      attempt: 1,
      actionType: task.actionType,
      parameters: task.parameters,
      idempotencyKey: "run-1/node",
      timeoutMs: 60_000,
      deadline: "2030-01-01T00:00:00Z",
      heartbeatMs: this.heartbeatMs,
      unknownKeyOfALaterServer: true,
      ...task.extra,
    };
  }

  #ofTask(task: FakeTask | undefined, route: string, body: Body): [number, unknown] {
    if (route === "heartbeat") {
      this.heartbeats.push(body);
    } else {
      this.reports.push({ route, body });
    }
    if (!task) {
      return [404, error("TASK_NOT_FOUND")];
    }
    if (task.lost || body["lease"] !== task.leases.at(-1)) {
      return [409, error(task.lost ?? "LEASE_LOST")];
    }
    if (route === "heartbeat") {
      return [200, { stop: task.stop ?? false }];
    }
    task.report ??= { route, body };
    return [200, {}];
  }
}

export function error(code: string): Body {
  return { error: { code, message: `says ${code}`, details: [] } };
}

function send(response: ServerResponse, status: number, answer: unknown): void {
  const text = typeof answer === "string" ? answer : JSON.stringify(answer);
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(text);
}
