/**
 * OpenTelemetry, where it is installed: spans of actions continue the run's trace. Without
 * `@opentelemetry/api` everything here does nothing.
 */

import type { Outcome } from "./outcome.js";
import type { Task } from "./protocol.js";

/** The part of `@opentelemetry/api` that is used; it is no dependency, so its types are not. */
interface Api {
  readonly context: { active(): unknown; with<T>(context: unknown, work: () => T): T };
  readonly propagation: {
    extract(context: unknown, carrier: unknown): unknown;
    inject(context: unknown, carrier: unknown): void;
  };
  readonly trace: {
    getTracer(name: string): {
      startSpan(name: string, options: unknown, context: unknown): Span;
    };
    setSpan(context: unknown, span: Span): unknown;
  };
}

interface Span {
  setAttribute(name: string, value: string): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}

const CONSUMER = 4;
const ERROR = 2;

const api = await load();

async function load(): Promise<Api | undefined> {
  try {
    // Not a literal, so that the compiler does not look for it.
    const name = "@opentelemetry/api";
    return (await import(name)) as Api;
  } catch {
    return undefined;
  }
}

/** Headers that carry the current trace. */
export function traceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  api?.propagation.inject(api.context.active(), headers);
  return headers;
}

/** Runs an attempt in a span, child of the `traceparent` that came with the task. */
export async function inSpan(task: Task, work: () => Promise<Outcome>): Promise<Outcome> {
  if (!api) {
    return work();
  }
  const carrier = task.traceparent ? { traceparent: task.traceparent } : {};
  const parent = api.propagation.extract(api.context.active(), carrier);
  const attributes = {
    "windlass.execution_id": task.executionId,
    "windlass.workflow_id": task.workflowId,
    "windlass.node": task.node,
    "windlass.attempt": task.attempt,
    "windlass.action_type": task.actionType,
  };
  const tracer = api.trace.getTracer("windlass");
  const span = tracer.startSpan(`action ${task.actionType}`, { kind: CONSUMER, attributes }, parent);
  try {
    const outcome = await api.context.with(api.trace.setSpan(parent, span), work);
    if (outcome.kind === "failed") {
      span.setAttribute("error.type", outcome.code);
      span.setStatus({ code: ERROR, message: outcome.message });
    }
    return outcome;
  } finally {
    span.end();
  }
}
