/** One action: a function, how its parameters are read, and what is declared of it. */

import type { Context } from "./context.js";
import { withContext } from "./context.js";
import type { Logger } from "./logger.js";
import type { Outcome } from "./outcome.js";
import { failed, ofError, ofReturn } from "./outcome.js";
import type { Declaration } from "./protocol.js";
import { taskIds, taskName } from "./protocol.js";
import { ActionError } from "./errors.js";
import type { Parameters } from "./shape.js";
import { inSpan } from "./telemetry.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$/;

export interface ActionOptions<T> {
  /** What the parameters look like; without it the function gets them as they come. */
  readonly parameters?: Parameters<T>;
  /** A sentence for people, shown by `windlass actions`. */
  readonly description?: string;
}

/** A function that serves an action type. What it returns must be JSON. */
export type ActionFunction<T> = (parameters: T, context: Context) => unknown;

export class Action {
  readonly #parse: (value: unknown) => unknown;
  readonly #function: ActionFunction<unknown>;
  readonly declaration: Declaration;

  constructor(
    readonly actionType: string,
    options: ActionOptions<unknown>,
    run: ActionFunction<unknown>,
  ) {
    if (!NAME.test(actionType)) {
      throw new RangeError(
        `${JSON.stringify(actionType)} is not an action type: use letters, digits and . _ / : -, ` +
          "at most 128, beginning with a letter or digit, such as 'billing.charge'",
      );
    }
    const { parameters, description } = options;
    this.#parse = parameters ? (value) => parameters.parse(value) : (value) => value;
    this.#function = run;
    this.declaration = {
      actionType,
      ...(parameters ? { parametersSchema: parameters.schema } : {}),
      ...(description ? { description } : {}),
    } as Declaration;
  }

  /** Runs the function to its end; never rejects. */
  async perform(context: Context, logger: Logger): Promise<Outcome> {
    const outcome = await inSpan(context.task, () =>
      withContext(context, async () => {
        try {
          // A task that comes with a stop is not begun.
          context.check();
          const parameters = this.#parsed(context.task.parameters);
          return ofReturn(await this.#function(parameters, context), context);
        } catch (error) {
          const ended = ofError(error, context);
          if (ended.kind === "failed" && ended.code === "UNHANDLED_EXCEPTION") {
            logger.error(`${taskName(context.task)} threw`, taskIds(context.task), error);
          }
          return ended;
        }
      }),
    );
    if (outcome.kind === "failed") {
      const text = `${taskName(context.task)} failed: ${outcome.code}: ${outcome.message}`;
      logger.warn(text, taskIds(context.task));
    }
    return outcome;
  }

  /** The parameters; whatever a parser throws means that they do not fit. */
  #parsed(value: unknown): unknown {
    try {
      return this.#parse(value ?? {});
    } catch (error) {
      if (error instanceof ActionError) {
        throw error;
      }
      throw new ParserRefused(error instanceof Error ? error.message : String(error));
    }
  }
}

class ParserRefused extends ActionError {
  readonly retriable = false;

  constructor(message: string) {
    super(message, { code: "PARAMETERS_INVALID" });
  }
}

/** Fails a task of a type that this worker never declared. */
export function unknownAction(actionType: string): Outcome {
  return failed("UNKNOWN_ACTION", `this worker serves no ${actionType}`, true);
}
