/** The client: publishing, starting, waiting, signalling, streaming events. */

import { randomUUID } from "node:crypto";

import { Backoff } from "./backoff.js";
import { ApiError, RunNotSucceeded, Unreachable, WaitTimeout } from "./errors.js";
import type { components } from "./generated/api.js";
import { encode } from "./outcome.js";
import { messages } from "./sse.js";
import { pause, within } from "./waiting.js";
import type { Connection, Sent } from "./wire.js";
import { errorOf, explain, PASSING, Wire } from "./wire.js";

type Schemas = components["schemas"];
export type Published = Schemas["Published"];
export type Started = Schemas["Started"];
export type Execution = Schemas["Execution"];
export type Event = Schemas["Event"];
export type Acted = Schemas["Acted"];
export type Definition = Schemas["Definition"];
export type StartOptions = Omit<Schemas["ExecuteBody"], "trigger">;

/** The server gives a sign of life every 15 s; a connection that is silent for longer is dead. */
const SILENCE_MS = 45_000;

const ENDED: ReadonlySet<string> = new Set(["Succeeded", "Failed", "Cancelled"]);

export interface ClientOptions extends Connection {
  /** How long an answer may take; 30 s by default. */
  readonly timeoutMs?: number;
  /** How long requests without an answer are repeated; 30 s by default. */
  readonly retryMs?: number;
}

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  /** Whether the server carries it out once, however often it arrives. */
  readonly repeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Speaks to a Windlass server. Requests without an answer are repeated; each that changes
 * something carries a key, so that none is carried out twice.
 */
export class Client {
  readonly #wire: Wire;
  readonly #timeoutMs: number;
  readonly #retryMs: number;

  constructor(options: ClientOptions = {}) {
    this.#wire = new Wire(options);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#retryMs = options.retryMs ?? 30_000;
  }

  /** Publishes a definition: an object, or the text of a JSON or YAML file. */
  publish(definition: Definition | string): Promise<Published> {
    const text = typeof definition === "string" ? definition : encode(definition);
    // Only what begins with a brace is JSON; the server reads YAML as well.
    const kind = /^\s*\{/.test(text) ? "application/json" : "application/yaml";
    return this.#send("POST", "/api/v1/workflows", text, { "Content-Type": kind });
  }

  /** Starts a run. Two requests with the same `requestId` start one run. */
  start(workflowId: string, trigger?: unknown, options: StartOptions = {}): Promise<Started> {
    const body = { requestId: randomUUID(), ...options, trigger };
    const path = `/api/v1/workflows/${encodeURIComponent(workflowId)}/execute`;
    return this.#send("POST", path, encode(body));
  }

  /** A run as it stands now; `include` may name actions, resources and events. */
  execution(executionId: string, include: readonly string[] = []): Promise<Execution> {
    const query = include.length > 0 ? `?include=${include.join(",")}` : "";
    return this.#send("GET", runPath(executionId) + query);
  }

  /** Waits until the run has ended; throws `WaitTimeout` after `timeoutMs`. */
  async wait(executionId: string, options: WaitOptions = {}): Promise<Execution> {
    const { timeoutMs = Infinity, signal } = options;
    const ends = performance.now() + timeoutMs;
    let after = 0;
    for (;;) {
      const execution = await this.execution(executionId);
      if (ENDED.has(execution.status)) {
        return execution;
      }
      signal?.throwIfAborted();
      const left = ends - performance.now();
      if (left <= 0) {
        throw new WaitTimeout(`run ${executionId} is ${execution.status} after ${timeoutMs} ms`);
      }
      after = await this.#untilEnd(executionId, after, Math.min(left, SILENCE_MS), signal);
    }
  }

  /** The output of the run when it has succeeded; throws `RunNotSucceeded` otherwise. */
  async result(executionId: string, options: WaitOptions = {}): Promise<unknown> {
    const execution = await this.wait(executionId, options);
    if (execution.status !== "Succeeded") {
      throw new RunNotSucceeded(executionId, execution.status, execution.error);
    }
    return execution.output;
  }

  /**
   * The events of a run as they happen, each once, until the run ends. A lost connection is
   * replaced and goes on where it was.
   */
  async *events(
    executionId: string,
    options: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Event> {
    const backoff = new Backoff();
    let position = options.after ?? 0;
    for (;;) {
      let delay: number;
      try {
        for await (const event of this.#connection(executionId, position, options.signal)) {
          if (event === "end") {
            return;
          }
          if (event.position > position) {
            position = event.position;
            backoff.reset();
            yield event;
          }
        }
        delay = backoff.next();
      } catch (error) {
        options.signal?.throwIfAborted();
        if (error instanceof ApiError && !PASSING.has(error.status)) {
          throw error;
        }
        delay = backoff.next(error instanceof ApiError ? error.retryAfterMs : undefined);
      }
      await pause(delay, options.signal);
      options.signal?.throwIfAborted();
    }
  }

  /** Gives a run a signal; one that comes early is kept. */
  signal(executionId: string, name: string, payload: unknown = null): Promise<Acted> {
    return this.#command(executionId, "signal", { name, payload });
  }

  /** Cancels a run; running work is asked to stop. */
  cancel(executionId: string, reason?: string): Promise<Acted> {
    return this.#command(executionId, "cancel", { reason });
  }

  /** Starts no new nodes of a run. */
  pause(executionId: string, reason?: string): Promise<Acted> {
    return this.#command(executionId, "pause", { reason });
  }

  /** Continues a paused run. */
  resume(executionId: string, reason?: string): Promise<Acted> {
    return this.#command(executionId, "resume", { reason });
  }

  /** Tries failed nodes again: those named, or all that can be. */
  reattempt(executionId: string, nodes: readonly string[] = [], reason?: string): Promise<Acted> {
    return this.#command(executionId, "reattempt", { nodes, reason });
  }

  /** Any other route of the API. Only reading is repeated, unless `repeatable` says more. */
  request<T = unknown>(request: Request): Promise<T> {
    const body = request.body === undefined ? undefined : encode(request.body);
    const repeatable = request.repeatable ?? ["GET", "HEAD"].includes(request.method);
    return this.#send(request.method, request.path, body, request.headers, repeatable);
  }

  #command(executionId: string, name: string, body: object): Promise<Acted> {
    const headers = { "Idempotency-Key": randomUUID() };
    return this.#send("POST", `${runPath(executionId)}/${name}`, encode(body), headers);
  }

  async #send<T>(
    method: string,
    path: string,
    body?: string,
    headers: Readonly<Record<string, string>> = {},
    repeatable = true,
  ): Promise<T> {
    const backoff = new Backoff();
    const ends = performance.now() + this.#retryMs;
    const sent: Sent = { method, path, body, headers, timeoutMs: this.#timeoutMs };
    for (;;) {
      try {
        return await this.#wire.json<T>(sent);
      } catch (error) {
        const delay = backoff.next(error instanceof ApiError ? error.retryAfterMs : undefined);
        const late = performance.now() + delay > ends;
        if (late || !mayRepeat(error, repeatable)) {
          throw error instanceof ApiError ? error : this.#unreachable(error);
        }
        await pause(delay);
      }
    }
  }

  #unreachable(error: unknown): Unreachable {
    return new Unreachable(
      `no answer from ${this.#wire.url}: ${explain(error)}; ` +
        "check the address, and that the server runs",
    );
  }

  /** Reads events until the end or the time; gives the last position. */
  async #untilEnd(
    executionId: string,
    after: number,
    ms: number,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    let position = after;
    await within(ms, signal, async (limit) => {
      try {
        for await (const event of this.events(executionId, { after, signal: limit })) {
          position = event.position;
        }
      } catch (error) {
        // The time is over, or the caller's signal; both are looked at where this is called.
        if (!limit.aborted) {
          throw error;
        }
      }
    });
    return position;
  }

  async *#connection(
    executionId: string,
    position: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Event | "end"> {
    const controller = new AbortController();
    const stop = (): void => controller.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    const silence = setTimeout(() => controller.abort(new Error("the stream fell silent")), SILENCE_MS);
    try {
      signal?.throwIfAborted();
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(position) };
      const sent = { method: "GET", path: `${runPath(executionId)}/events`, headers, timeoutMs: 0 };
      const response = await this.#wire.fetch(sent, controller.signal);
      if (!response.ok || !response.body) {
        throw errorOf(response, await response.text());
      }
      for await (const message of messages(heard(response.body, () => silence.refresh()))) {
        if (message.kind === "end") {
          yield "end";
          return;
        }
        // After these the stream ends and the run goes on: the next connection carries on.
        if (!["lagged", "draining", "expired"].includes(message.kind)) {
          yield JSON.parse(message.data) as Event;
        }
      }
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener("abort", stop);
      controller.abort();
    }
  }
}

/** Calls back for every piece that arrives, signs of life included. */
async function* heard(
  body: AsyncIterable<Uint8Array>,
  callback: () => void,
): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    callback();
    yield piece;
  }
}

/** What was refused for its rate was not carried out, whatever it is. */
function mayRepeat(error: unknown, repeatable: boolean): boolean {
  if (error instanceof ApiError) {
    return error.status === 429 || (repeatable && PASSING.has(error.status));
  }
  return repeatable;
}

function runPath(executionId: string): string {
  return `/api/v1/executions/${encodeURIComponent(executionId)}`;
}
