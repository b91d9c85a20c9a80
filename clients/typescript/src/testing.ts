/**
 * A test kit: runs an action's function as the engine would, without a server. The parameters go
 * through JSON, what the function does becomes an outcome by the worker's own code, and
 * retriable failures are tried again under the next attempt number and the same key.
 */

import { TIMED_OUT } from "./attempt.js";
import { Context } from "./context.js";
import type { Resource } from "./context.js";
import type { Outcome } from "./outcome.js";
import { encode, failed } from "./outcome.js";
import type { Task } from "./protocol.js";
import { HEARTBEAT_MS } from "./protocol.js";
import type { Worker } from "./worker.js";

/** The circumstances of a test: what the engine would put into the task. */
export interface Given {
  readonly attempt?: number;
  /** How many attempts the node's retry policy allows in all; 1 by default. */
  readonly maxAttempts?: number;
  readonly timeoutMs?: number;
  readonly node?: string;
  readonly executionId?: string;
  readonly idempotencyKey?: string;
  readonly traceparent?: string;
  /** Gets the context of each attempt before it runs; a test cancels with `context.stop(…)`. */
  readonly onStart?: (context: Context) => void;
}

/** How the last attempt ended, in the words of a node. */
export interface Result {
  readonly status: "Succeeded" | "Failed" | "Skipped" | "Cancelled";
  readonly attempts: number;
  readonly output?: unknown;
  readonly code?: string;
  readonly message?: string;
  readonly retriable?: boolean;
  readonly afterMs?: number | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly resources?: readonly Resource[];
  /** Details of the last heartbeat. */
  readonly progress?: unknown;
}

/** Runs an action of the worker to its end. */
export async function runAction(
  worker: Worker,
  actionType: string,
  parameters: unknown = {},
  given: Given = {},
): Promise<Result> {
  const action = worker.actions.get(actionType);
  if (!action) {
    const names = [...worker.actions.keys()].join(", ") || "none";
    throw new RangeError(`the worker has no action ${JSON.stringify(actionType)}; it has: ${names}`);
  }
  let attempt = given.attempt ?? 1;
  for (;;) {
    const context = new Context(task(actionType, parameters, given, attempt), worker.logger);
    given.onStart?.(context);
    const timer = setTimeout(() => context.stop(TIMED_OUT), context.remainingMs());
    let outcome = await action.perform(context, worker.logger);
    clearTimeout(timer);
    if (outcome.kind === "stopped" && context.stopReason === TIMED_OUT) {
      outcome = failed("TIMEOUT", TIMED_OUT, true);
    }
    const again = outcome.kind === "failed" && outcome.retriable;
    if (!again || attempt >= (given.maxAttempts ?? 1)) {
      return result(outcome, context, attempt);
    }
    attempt += 1;
  }
}

function task(actionType: string, parameters: unknown, given: Given, attempt: number): Task {
  const executionId = given.executionId ?? "00000000-0000-7000-8000-000000000000";
  const node = given.node ?? "node";
  const timeoutMs = given.timeoutMs ?? 300_000;
  return {
    taskId: `${executionId}/${node}/${attempt}`,
    lease: "test",
    executionId,
    workflowId: "test",
    version: 1,
    node,
    attempt,
    actionType,
    // Through JSON, so that a test cannot pass what the wire could not.
    parameters: JSON.parse(encode(parameters)) as never,
    idempotencyKey: given.idempotencyKey ?? `${executionId}/${node}`,
    timeoutMs,
    deadline: new Date(Date.now() + timeoutMs).toISOString(),
    heartbeatMs: HEARTBEAT_MS,
    ...(given.traceparent ? { traceparent: given.traceparent } : {}),
  };
}

function result(outcome: Outcome, context: Context, attempts: number): Result {
  const progress = context.takeProgress();
  const common = progress === undefined ? { attempts } : { attempts, progress };
  switch (outcome.kind) {
    case "completed": {
      const output: unknown = JSON.parse(outcome.encoded);
      const { meta, resources } = outcome;
      return { status: "Succeeded", output, meta, resources, ...common };
    }
    case "failed": {
      const { kind: _, ...rest } = outcome;
      return { status: "Failed", ...rest, ...common };
    }
    case "skipped":
      return { status: "Skipped", ...common };
    case "stopped":
      return { status: "Cancelled", message: outcome.reason, ...common };
  }
}
