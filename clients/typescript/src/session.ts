/**
 * The worker's side of the protocol: polling, and what is under way. Must not know how functions
 * are run; `action.ts` does.
 */

import type { Action } from "./action.js";
import { unknownAction } from "./action.js";
import { Attempt } from "./attempt.js";
import { Backoff } from "./backoff.js";
import { Context } from "./context.js";
import { ApiError } from "./errors.js";
import type { Logger } from "./logger.js";
import type { PollAnswer, PollRequest, Task } from "./protocol.js";
import { PROTOCOL, taskName } from "./protocol.js";
import { aborted, pause } from "./waiting.js";
import type { Wire } from "./wire.js";
import { explain, PASSING } from "./wire.js";

/** The server waits at most 30 s. Some proxies cut connections that are silent for as long. */
const WAIT_MS = 25_000;

/** What the server hands out at once at most. */
const MOST_SLOTS = 1000;

/** How long past its wait an answer to a poll may take before it counts as lost. */
const ANSWER_MS = 10_000;

export interface SessionOptions {
  readonly name: string;
  readonly labels: readonly string[];
  readonly concurrency: number;
  readonly stopTimeoutMs: number | undefined;
}

/** One worker, from its first poll until it has stopped. */
export class Session {
  readonly #attempts = new Map<string, Attempt>();
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #halting = new AbortController();
  #slotFreed = new AbortController();
  #accepted = false;

  constructor(
    private readonly wire: Wire,
    private readonly options: SessionOptions,
    private readonly actions: ReadonlyMap<string, Action>,
    private readonly logger: Logger,
  ) {}

  /** Polls no more; what runs is finished. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Also asks what runs to stop, and gives its tasks up: other workers get them. */
  halt(): void {
    this.#stopping.abort();
    this.#halting.abort();
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Serves until it is stopped; throws `ApiError` if the server refuses the worker. */
  async run(): Promise<void> {
    try {
      await this.#pollUntilStopped();
    } finally {
      this.#stopping.abort();
      await this.#drain();
    }
  }

  async #pollUntilStopped(): Promise<void> {
    const backoff = new Backoff();
    while (!this.isStopping) {
      const free = this.options.concurrency - this.#attempts.size;
      if (free <= 0) {
        this.#slotFreed = new AbortController();
        await Promise.race([aborted(this.#slotFreed.signal), aborted(this.#stopping.signal)]);
        continue;
      }
      try {
        const tasks = await this.#poll(free);
        backoff.reset();
        tasks.forEach((task) => this.#accept(task));
      } catch (error) {
        if (this.isStopping) {
          return;
        }
        const delay = backoff.next(this.#afterRefusal(error));
        const seconds = (delay / 1000).toFixed(1);
        this.logger.warn(`a poll failed, the next one is in ${seconds} s: ${explain(error)}`);
        await pause(delay, this.#stopping.signal);
      }
    }
  }

  /**
   * The delay that a refusal asks for; throws what repeating cannot mend. Before the first good
   * answer a refusal means that this worker is set up wrongly: a reserved type, a token without
   * the scope, a server without the protocol. Later it may pass, as when keys are exchanged, and
   * what runs should not be lost to it.
   */
  #afterRefusal(error: unknown): number | undefined {
    if (!(error instanceof ApiError)) {
      return undefined;
    }
    const refused = error.status >= 400 && error.status < 500 && !PASSING.has(error.status);
    if (!this.#accepted && refused) {
      throw error;
    }
    return error.retryAfterMs;
  }

  async #poll(slots: number): Promise<readonly Task[]> {
    const body: PollRequest = {
      protocol: PROTOCOL,
      worker: this.options.name,
      actions: [...this.actions.values()].map((action) => action.declaration),
      slots: Math.min(slots, MOST_SLOTS),
      waitMs: WAIT_MS,
      // What is leased to this worker and not named here comes again at once: the answer that
      // carried it was lost.
      holding: [...this.#attempts.keys()],
      ...(this.options.labels.length > 0 ? { labels: [...this.options.labels] } : {}),
    };
    const answer = await this.wire.json<PollAnswer>({
      method: "POST",
      path: "/api/v1/workers/poll",
      body: JSON.stringify(body),
      timeoutMs: WAIT_MS + ANSWER_MS,
      signal: this.#stopping.signal,
    });
    this.#accepted = true;
    return answer.tasks.map(checked);
  }

  #accept(task: Task): void {
    const held = this.#attempts.get(task.taskId);
    if (held) {
      // The lease had ended, and this worker got the task again while its function still runs:
      // the same attempt under a new lease.
      held.adopt(task);
      return;
    }
    const context = new Context(task, this.logger);
    const attempt = new Attempt(this.wire, this.logger, task, context, this.#halting.signal);
    this.#attempts.set(task.taskId, attempt);
    const running = this.#run(attempt).finally(() => {
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  async #run(attempt: Attempt): Promise<void> {
    const { task, context } = attempt;
    const action = this.actions.get(task.actionType);
    try {
      await attempt.run(async () =>
        action ? action.perform(context, this.logger) : unknownAction(task.actionType),
      );
    } catch (error) {
      // One broken attempt must not end the worker.
      this.logger.error(`${taskName(task)} was given up`, error);
    } finally {
      this.#attempts.delete(task.taskId);
      this.#slotFreed.abort();
    }
  }

  /** Waits for what runs; after the time for that, gives it up. */
  async #drain(): Promise<void> {
    if (this.#running.size > 0) {
      this.logger.info(`stopping: ${this.#running.size} attempts are finished first`);
      const finished = new AbortController();
      const all = Promise.all(this.#running).then(() => finished.abort());
      const limit = this.options.stopTimeoutMs;
      const waits = [all, aborted(this.#halting.signal)];
      await Promise.race(
        limit === undefined ? waits : [...waits, pause(limit, finished.signal)],
      );
    }
    this.#halting.abort();
    await Promise.all(this.#running);
  }
}

/** A task with what is needed to serve it; half of one is as good as a lost answer. */
function checked(task: Task): Task {
  for (const key of ["taskId", "lease", "actionType", "executionId", "node"] as const) {
    if (typeof task[key] !== "string") {
      throw new TypeError(`a task came without ${key}`);
    }
  }
  return task;
}
