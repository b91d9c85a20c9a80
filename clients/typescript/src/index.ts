/** Workers and a client for Windlass, a durable workflow engine. */

export type { ActionFunction, ActionOptions } from "./action.js";
export { Client } from "./client.js";
export type {
  Acted,
  ClientOptions,
  Definition,
  Event,
  Execution,
  Published,
  Request,
  Started,
  StartOptions,
  WaitOptions,
} from "./client.js";
export { currentContext } from "./context.js";
export type { Context, Resource } from "./context.js";
export {
  ActionError,
  ApiError,
  Cancelled,
  ParametersInvalid,
  Permanent,
  Retriable,
  RunNotSucceeded,
  Skip,
  Unreachable,
  WaitTimeout,
  WindlassError,
} from "./errors.js";
export type { components, paths } from "./generated/api.js";
export type { Logger } from "./logger.js";
export { silent } from "./logger.js";
export type { Task } from "./protocol.js";
export { shape } from "./shape.js";
export type { Infer, JsonSchema, Parameters, Shape } from "./shape.js";
export type { Connection, Token } from "./wire.js";
export { Worker } from "./worker.js";
export type { WorkerOptions } from "./worker.js";
