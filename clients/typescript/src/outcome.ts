/**
 * How an attempt ended, and how that is said over the wire. Everything that a function throws
 * becomes an outcome here, for the worker and the test kit alike.
 */

import type { Context, Resource } from "./context.js";
import { ActionError, Cancelled, Retriable, Skip } from "./errors.js";
import type { FailRequest, SkipRequest } from "./protocol.js";

/** The function returned. `encoded` is its output in JSON. */
export interface Completed {
  readonly kind: "completed";
  readonly encoded: string;
  readonly meta: Readonly<Record<string, unknown>>;
  readonly resources: readonly Resource[];
}

export interface Failed {
  readonly kind: "failed";
  readonly code: string;
  readonly message: string;
  readonly retriable: boolean;
  readonly afterMs?: number | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

export interface Skipped {
  readonly kind: "skipped";
}

/** The function ended because it was asked to stop. */
export interface Stopped {
  readonly kind: "stopped";
  readonly reason: string;
}

export type Outcome = Completed | Failed | Skipped | Stopped;

/** Longer messages are cut: they are recorded with the run and shown in lists. */
const MESSAGE_CHARACTERS = 4000;

/** The server cuts delays at its own limit; this only keeps the number one that it can read. */
const LONGEST_MS = 366 * 86_400_000;

export function failed(code: string, message: string, retriable: boolean): Failed {
  return { kind: "failed", code, message: cut(message), retriable };
}

/** The outcome of a function that returned. */
export function ofReturn(value: unknown, context: Context): Outcome {
  try {
    const encoded = encode(value);
    encode([context.meta, context.resources]);
    return { kind: "completed", encoded, meta: context.meta, resources: [...context.resources] };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the output of ${context.task.actionType} is not JSON: ${reason}`;
    return failed("OUTPUT_NOT_JSON", message, false);
  }
}

/** The outcome of a function that threw. */
export function ofError(error: unknown, context: Context): Outcome {
  if (context.cancelled && isStop(error, context)) {
    return { kind: "stopped", reason: context.stopReason ?? "the attempt was asked to stop" };
  }
  if (error instanceof Skip) {
    return { kind: "skipped" };
  }
  if (error instanceof ActionError) {
    const afterMs = error instanceof Retriable ? error.afterMs : undefined;
    const { code, retriable, details } = error;
    return { kind: "failed", code, message: cut(error.message), retriable, afterMs, details };
  }
  // An unforeseen error may be one of the network; the node's retry policy bounds how often that
  // is hoped for. The stack stays in the worker's log: it may hold secrets.
  const name = error instanceof Error ? error.name : typeof error;
  const text = error instanceof Error ? error.message : String(error);
  const message = cut(text ? `${name}: ${text}` : name);
  const details = { exception: name };
  return { kind: "failed", code: "UNHANDLED_EXCEPTION", message, retriable: true, details };
}

/** Libraries throw errors of their own when a signal is aborted; most are named so. */
function isStop(error: unknown, context: Context): boolean {
  return (
    error instanceof Cancelled ||
    error === context.signal.reason ||
    (error instanceof Error && error.name === "AbortError")
  );
}

/** The last part of the route, and the body that reports the outcome. */
export function requestOf(outcome: Outcome, lease: string): [route: string, body: string] {
  if (outcome.kind === "completed") {
    const rest: Record<string, unknown> = { lease };
    if (Object.keys(outcome.meta).length > 0) {
      rest["meta"] = outcome.meta;
    }
    if (outcome.resources.length > 0) {
      rest["resources"] = outcome.resources;
    }
    // The output is encoded already, perhaps ten megabytes of it.
    return ["complete", `${JSON.stringify(rest).slice(0, -1)},"output":${outcome.encoded}}`];
  }
  if (outcome.kind === "skipped") {
    return ["skip", JSON.stringify({ lease } satisfies SkipRequest)];
  }
  const told = outcome.kind === "failed" ? outcome : failed("STOPPED", outcome.reason, false);
  const body: FailRequest = {
    lease,
    code: told.code,
    message: told.message,
    retriable: told.retriable,
  };
  if (told.afterMs !== undefined) {
    body.retryAfterMs = Math.round(Math.min(told.afterMs, LONGEST_MS));
  }
  if (told.details !== undefined) {
    body.details = told.details;
  }
  return ["fail", withoutWhatIsNotJson(body)];
}

/** An error must arrive, even if its details cannot be written. */
function withoutWhatIsNotJson(body: FailRequest): string {
  try {
    return encode(body);
  } catch {
    return JSON.stringify({ ...body, details: { note: "the details of the error are not JSON" } });
  }
}

/**
 * JSON, where JavaScript would lose something in silence: NaN and infinities become null, and
 * functions, symbols and Map or Set vanish.
 */
export function encode(value: unknown): string {
  const text = JSON.stringify(value === undefined ? null : value, (key, each: unknown) => {
    const place = key === "" ? "the value" : `the value at ${JSON.stringify(key)}`;
    if (typeof each === "number" && !Number.isFinite(each)) {
      throw new TypeError(`${place} is ${each}, which JSON does not have`);
    }
    if (typeof each === "function" || typeof each === "symbol") {
      throw new TypeError(`${place} is a ${typeof each}, which has no form in JSON`);
    }
    if (each instanceof Map || each instanceof Set) {
      throw new TypeError(`${place} is a Map or Set: return an object or an array`);
    }
    if (typeof each === "string" && /\p{Surrogate}/u.test(each)) {
      throw new TypeError(`${place} holds a lone surrogate, which is not Unicode`);
    }
    return each;
  });
  return text;
}

/** A message that can be written: not too long, and without halves of characters. */
function cut(message: string): string {
  const short =
    message.length <= MESSAGE_CHARACTERS ? message : `${message.slice(0, MESSAGE_CHARACTERS - 1)}…`;
  return short.replace(/\p{Surrogate}/gu, "\u{fffd}");
}
