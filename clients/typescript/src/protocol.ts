/**
 * The worker protocol as the OpenAPI document describes it. Types only: a change of the document
 * that the worker does not follow fails the build.
 */

import type { paths } from "./generated/api.js";

type Poll = paths["/api/v1/workers/poll"]["post"];

export type PollRequest = Poll["requestBody"]["content"]["application/json"];
export type PollAnswer = Poll["responses"]["200"]["content"]["application/json"];
export type Declaration = PollRequest["actions"][number];

/** One attempt of one node, leased to this worker. */
export type Task = PollAnswer["tasks"][number];

type Route<Name extends keyof paths> = paths[Name] extends {
  post: { requestBody: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;

export type HeartbeatRequest = Route<"/api/v1/workers/tasks/{taskId}/heartbeat">;
export type CompleteRequest = Route<"/api/v1/workers/tasks/{taskId}/complete">;
export type FailRequest = Route<"/api/v1/workers/tasks/{taskId}/fail">;
export type SkipRequest = Route<"/api/v1/workers/tasks/{taskId}/skip">;

export const PROTOCOL = 1;

/** What the server promises (docs/workers.md): a lease ends after three missed heartbeats. */
export const HEARTBEAT_MS = 3000;

/** A task for people; neither its parameters nor its lease belong in logs. */
export function taskName(task: Task): string {
  return `${task.actionType} of ${task.executionId}/${task.node}, attempt ${task.attempt}`;
}

/** The ids of a task, for log records. */
export function taskIds(task: Task): Record<string, string | number> {
  const { executionId, workflowId, node, attempt, actionType, taskId } = task;
  return { executionId, workflowId, node, attempt, actionType, taskId };
}
