/**
 * What actions throw, and what the client throws. Must not know HTTP or workers.
 */

import type { components } from "./generated/api.js";

/** What the engine accepts as an error code. */
const CODE = /^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$/;

/** The base of every error of this package. */
export class WindlassError extends Error {
  constructor(message?: string) {
    super(message);
    this.name = new.target.name;
  }
}

export interface ActionErrorOptions {
  /** For programs; `ACTION_FAILED` by default. */
  readonly code?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** An action failed. Throw `Retriable` or `Permanent`, which say what happens next. */
export abstract class ActionError extends WindlassError {
  abstract readonly retriable: boolean;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(message = "the action failed", options: ActionErrorOptions = {}) {
    super(message);
    this.code = options.code ?? "ACTION_FAILED";
    this.details = options.details;
    if (!CODE.test(this.code)) {
      throw new RangeError(
        `${JSON.stringify(this.code)} is not an error code: use letters, digits and . _ / : -, ` +
          "at most 128, beginning with a letter or digit",
      );
    }
  }
}

/**
 * The attempt failed and another may succeed. Whether there is another is the node's retry
 * policy; `afterMs` is the shortest delay before it. The policy's own may be longer, and the
 * server has a limit (1 h by default).
 */
export class Retriable extends ActionError {
  readonly retriable = true;
  readonly afterMs: number | undefined;

  constructor(message: string, options: ActionErrorOptions & { readonly afterMs?: number } = {}) {
    super(message, options);
    this.afterMs = options.afterMs;
    // The comparison is false for NaN as well.
    if (this.afterMs !== undefined && !(this.afterMs >= 0 && this.afterMs < Infinity)) {
      throw new RangeError(`afterMs is ${this.afterMs}: give the milliseconds to wait, 0 or more`);
    }
  }
}

/** The attempt failed and no other can succeed: the node fails at once. */
export class Permanent extends ActionError {
  readonly retriable = false;
}

/** The parameters do not fit what the action declared. */
export class ParametersInvalid extends Permanent {
  constructor(readonly problems: readonly string[]) {
    super(problems.join("; "), { code: "PARAMETERS_INVALID" });
  }
}

/** The action has nothing to do: its node is Skipped, and so is what only follows it. */
export class Skip extends WindlassError {}

/**
 * The attempt is asked to stop: the run was cancelled, the attempt timed out, another worker has
 * the task, or this worker is stopping. It is the reason of `context.signal`, so `fetch` and
 * everything else that takes a signal throws it.
 */
export class Cancelled extends WindlassError {
  constructor(readonly reason: string) {
    super(reason);
  }
}

type ErrorObject = components["schemas"]["ErrorObject"];

/** The server refused a request. */
export class ApiError extends WindlassError {
  readonly code: string;
  readonly hint: string | undefined;
  readonly details: ErrorObject["details"];
  readonly correlationId: string | undefined;

  constructor(
    readonly status: number,
    error: Partial<ErrorObject>,
    readonly retryAfterMs?: number,
  ) {
    const code = error.code ?? `HTTP_${status}`;
    const hint = error.hint ? ` (${error.hint})` : "";
    super(`${code} (${status}): ${error.message ?? "the server refused the request"}${hint}`);
    this.code = code;
    this.hint = error.hint ?? undefined;
    this.details = error.details ?? [];
    this.correlationId = error.correlationId;
  }
}

/** The server gave no answer, although the request was repeated. */
export class Unreachable extends WindlassError {}

/** The run had not ended when the time was over. It continues. */
export class WaitTimeout extends WindlassError {}

/** A run whose result was asked for failed or was cancelled. */
export class RunNotSucceeded extends WindlassError {
  constructor(
    readonly executionId: string,
    readonly status: string,
    readonly error: components["schemas"]["Execution"]["error"],
  ) {
    super(`run ${executionId} ended ${status}${error ? `: ${error.message}` : ""}`);
  }
}
