/**
 * One attempt over HTTP: heartbeats, the time limit, and the report of its outcome. The server
 * decides who has a task. This file repeats what the server may not have heard, and stops when
 * the server says that another worker has the task or that the attempt has ended.
 */

import { Backoff } from "./backoff.js";
import type { Context } from "./context.js";
import { ApiError } from "./errors.js";
import type { Logger } from "./logger.js";
import type { Outcome } from "./outcome.js";
import { encode, failed, requestOf } from "./outcome.js";
import type { HeartbeatRequest, Task } from "./protocol.js";
import { HEARTBEAT_MS, taskIds, taskName } from "./protocol.js";
import { aborted, pause } from "./waiting.js";
import type { Wire } from "./wire.js";
import { explain, PASSING } from "./wire.js";

/** How long a report may take: outputs may have 10 MiB. */
const REPORT_MS = 30_000;

/** How long a function gets to end after the worker was told to halt. */
const HALT_MS = 5000;

export const TIMED_OUT = "the attempt has timed out";
const STOP_ASKED = "the server asked the attempt to stop";
const HALTED = "the worker is stopping";

/** A task that this worker holds. */
export class Attempt {
  #lease: string;
  /** Aborted when the server said that the lease is lost or the attempt has ended. */
  #gone = new AbortController();
  /** Aborted when nothing more is to be done for this attempt. */
  readonly #done = new AbortController();

  constructor(
    private readonly wire: Wire,
    private readonly logger: Logger,
    readonly task: Task,
    readonly context: Context,
    private readonly halting: AbortSignal,
  ) {
    this.#lease = task.lease;
  }

  /** Continues under a new lease of the same task, also after the old one was lost. */
  adopt(task: Task): void {
    this.logger.info(`${taskName(task)} continues under a new lease`, taskIds(task));
    this.#lease = task.lease;
    if (this.#gone.signal.aborted) {
      this.#gone = new AbortController();
    }
  }

  /** Keeps the lease while the function runs, then reports how it ended. */
  async run(perform: () => Promise<Outcome>): Promise<void> {
    const heartbeats = this.#heartbeats();
    const halt = (): void => this.context.stop(HALTED);
    this.halting.addEventListener("abort", halt);
    const timer = this.#timeLimit();
    try {
      const outcome = await this.#outcome(perform());
      // Heartbeats go on meanwhile: a report that is repeated for a minute needs its lease.
      if (outcome && !this.#gone.signal.aborted) {
        await this.#report(outcome);
      }
    } finally {
      clearTimeout(timer);
      this.halting.removeEventListener("abort", halt);
      this.#done.abort();
      await heartbeats;
    }
  }

  /** How the function ended; nothing if there is nothing to report. */
  async #outcome(running: Promise<Outcome>): Promise<Outcome | undefined> {
    let outcome: Outcome | undefined;
    const finished = running.then((ended) => {
      outcome = ended;
    });
    await Promise.race([finished, aborted(this.halting)]);
    if (!outcome) {
      await Promise.race([finished, pause(HALT_MS, this.#done.signal)]);
    }
    if (!outcome) {
      this.logger.warn(`${taskName(this.task)} does not stop and is left behind`);
      return undefined;
    }
    if (outcome.kind !== "stopped") {
      return outcome;
    }
    if (this.context.stopReason === TIMED_OUT) {
      // The server says the same, unless its timer is a little later than this one.
      return failed("TIMEOUT", TIMED_OUT, true);
    }
    // A worker that halts reports nothing: another gets the task, as the same attempt.
    return this.context.stopReason === STOP_ASKED ? outcome : undefined;
  }

  #timeLimit(): NodeJS.Timeout | undefined {
    const ms = this.context.remainingMs();
    // A timer of Node counts to 24 days; an attempt that may take longer has no limit here.
    return ms === undefined || ms >= 2 ** 31
      ? undefined
      : setTimeout(() => this.context.stop(TIMED_OUT), ms);
  }

  async #heartbeats(): Promise<void> {
    const interval = this.task.heartbeatMs || HEARTBEAT_MS;
    const backoff = new Backoff(interval / 10, interval);
    let delay = interval;
    for (;;) {
      await pause(delay, this.#done.signal);
      if (this.#done.signal.aborted) {
        return;
      }
      if (this.#gone.signal.aborted) {
        // A function that does not stop may still get a new lease.
        delay = interval;
        continue;
      }
      const lease = this.#lease;
      try {
        const answer = await this.#post<{ stop?: boolean }>("heartbeat", this.#beat(lease), interval);
        backoff.reset();
        delay = interval;
        if (answer?.stop) {
          this.context.stop(STOP_ASKED);
        }
      } catch (error) {
        if (this.#done.signal.aborted) {
          return;
        }
        if (error instanceof ApiError && this.#isGone(error, lease)) {
          continue;
        }
        // Sooner than the next one is due: three missed ones end the lease.
        delay = backoff.next(error instanceof ApiError ? error.retryAfterMs : undefined);
        this.logger.warn(`a heartbeat of ${taskName(this.task)} failed: ${explain(error)}`);
      }
    }
  }

  #beat(lease: string): string {
    const details = this.context.takeProgress();
    const body = details === undefined ? { lease } : { lease, details };
    try {
      return encode(body as HeartbeatRequest);
    } catch (error) {
      this.logger.warn(`progress of ${taskName(this.task)} was left out: ${explain(error)}`);
      return encode({ lease });
    }
  }

  /** Whether the task is no longer this worker's; then the function is asked to stop. */
  #isGone(error: ApiError, lease: string): boolean {
    const final = [404, 409, 410].includes(error.status) && !byProxy(error);
    if (!final || lease !== this.#lease) {
      return false;
    }
    this.logger.warn(`${taskName(this.task)} is lost: ${error.message}`, taskIds(this.task));
    this.#gone.abort();
    this.context.stop(error.message);
    return true;
  }

  /** Repeats the report until it is recorded or refused for good. */
  async #report(first: Outcome): Promise<void> {
    const backoff = new Backoff();
    let outcome = first;
    while (!this.#gone.signal.aborted) {
      const lease = this.#lease;
      const [route, body] = requestOf(outcome, lease);
      let after: number | undefined;
      try {
        await this.#post(route, body, REPORT_MS);
        return;
      } catch (error) {
        if (error instanceof ApiError) {
          if (this.#isGone(error, lease)) {
            return;
          }
          if (lease !== this.#lease) {
            // A new lease arrived while this report was under way.
            continue;
          }
          if (!mayPass(error)) {
            const instead = this.#instead(outcome, error);
            if (!instead) {
              return;
            }
            outcome = instead;
            continue;
          }
          after = error.retryAfterMs;
        }
        this.logger.warn(`the report of ${taskName(this.task)} is repeated: ${explain(error)}`);
      }
      await Promise.race([pause(backoff.next(after), this.#gone.signal), aborted(this.halting)]);
      if (this.halting.aborted) {
        this.logger.error(`${taskName(this.task)} ended and its outcome could not be reported`);
        return;
      }
    }
  }

  /** What to report when the server refuses the report itself. */
  #instead(outcome: Outcome, error: ApiError): Outcome | undefined {
    this.logger.error(`the outcome of ${taskName(this.task)} was refused: ${error.message}`);
    if (outcome.kind === "failed" && outcome.details !== undefined) {
      // A refused failure would come again and fail the same way: say less of it.
      return failed(outcome.code, outcome.message.slice(0, 500), outcome.retriable);
    }
    if (outcome.kind !== "completed") {
      return undefined;
    }
    if (error.status === 413) {
      const bytes = Buffer.byteLength(outcome.encoded);
      return failed("OUTPUT_LIMIT", `the output has ${bytes} bytes: ${error.message}`, false);
    }
    return failed("OUTPUT_REFUSED", `the server refused the output: ${error.message}`, false);
  }

  async #post<T>(route: string, body: string, timeoutMs: number): Promise<T | undefined> {
    const path = `/api/v1/workers/tasks/${encodeURIComponent(this.task.taskId)}/${route}`;
    const signal = route === "heartbeat" ? this.#done.signal : undefined;
    return this.wire.json<T>({ method: "POST", path, body, timeoutMs, signal });
  }
}

/** Whether something before the server answered: every error of the server has a code. */
function byProxy(error: ApiError): boolean {
  return error.code.startsWith("HTTP_");
}

/** Whether the same report may be taken later. Tokens expire and are renewed. */
function mayPass(error: ApiError): boolean {
  if (PASSING.has(error.status) || [200, 401, 403].includes(error.status) || error.status >= 500) {
    return true;
  }
  return byProxy(error) && error.status !== 413;
}
