/**
 * What an action's function sees of its attempt: ids, the time that is left, requests to stop.
 * Must not know HTTP: the worker's session and the test kit both drive a context.
 */

import { AsyncLocalStorage } from "node:async_hooks";

import { Cancelled } from "./errors.js";
import type { CompleteRequest, Task } from "./protocol.js";
import { taskIds } from "./protocol.js";
import type { Logger } from "./logger.js";
import { withIds } from "./logger.js";
import { pause } from "./waiting.js";

export type Resource = NonNullable<CompleteRequest["resources"]>[number];

const storage = new AsyncLocalStorage<Context>();

/** The context of the action that runs here; throws outside of one. */
export function currentContext(): Context {
  const context = storage.getStore();
  if (!context) {
    throw new Error("no action runs here; currentContext() works inside actions only");
  }
  return context;
}

/** Runs work with the context as the current one. */
export function withContext<T>(context: Context, work: () => T): T {
  return storage.run(context, work);
}

/** One attempt, as its function sees it. */
export class Context {
  /** What the attempt reports about how it ran, beside its output. It is recorded. */
  readonly meta: Record<string, unknown> = {};
  /** A logger whose records carry the ids of this attempt. */
  readonly log: Logger;
  readonly #controller = new AbortController();
  readonly #ends: number | undefined;
  readonly #resources: Resource[] = [];
  #progress: unknown;

  constructor(
    /** The task as the server handed it out. */
    readonly task: Task,
    logger: Logger,
  ) {
    this.log = withIds(logger, taskIds(task));
    this.#ends = task.timeoutMs == null ? undefined : performance.now() + task.timeoutMs;
  }

  /** The run. */
  get executionId(): string {
    return this.task.executionId;
  }

  /** The node's path in the run, such as `charge-all[17]/charge`. */
  get node(): string {
    return this.task.node;
  }

  /** The attempt's number, from 1. A task that is handed out again keeps it. */
  get attempt(): number {
    return this.task.attempt;
  }

  /** The same for every attempt of this node: give it to services that accept one. */
  get idempotencyKey(): string {
    return this.task.idempotencyKey;
  }

  /** Milliseconds until the attempt times out, by this process's own clock. */
  remainingMs(): number | undefined {
    return this.#ends === undefined ? undefined : Math.max(0, this.#ends - performance.now());
  }

  /** Aborted with `Cancelled` when the attempt is asked to stop; give it to `fetch` and the like. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the attempt is asked to stop. */
  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** Why the attempt is asked to stop, for people. */
  get stopReason(): string | undefined {
    return this.signal.reason instanceof Cancelled ? this.signal.reason.reason : undefined;
  }

  /** Throws `Cancelled` if the attempt is asked to stop. */
  check(): void {
    this.signal.throwIfAborted();
  }

  /** Sleeps; throws `Cancelled` as soon as the attempt is asked to stop. */
  async sleep(ms: number): Promise<void> {
    await pause(ms, this.signal);
    this.check();
  }

  /**
   * Tells the server how far the attempt is, with the next heartbeat. Heartbeats are sent without
   * this; it only adds details. Throws `Cancelled` if the attempt is asked to stop.
   */
  heartbeat(details: unknown): void {
    this.#progress = details;
    this.check();
  }

  /** Reports a thing that the action made in another system, so that people find it. */
  resource(resource: Resource): void {
    this.#resources.push(resource);
  }

  // What follows is for the worker's session and the test kit.

  get resources(): readonly Resource[] {
    return this.#resources;
  }

  /** The details for the next heartbeat, once. */
  takeProgress(): unknown {
    const details = this.#progress;
    this.#progress = undefined;
    return details;
  }

  /** Asks the function to stop; the first reason stays. */
  stop(reason: string): void {
    if (!this.cancelled) {
      this.#controller.abort(new Cancelled(reason));
    }
  }
}
