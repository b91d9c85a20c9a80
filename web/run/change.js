// What an event changes of a node.

/** By kind of event, the status that its node has then. @type {Record<string, string>} */
export const BECOMES = {
  NodeStarted: 'Running',
  NodeSucceeded: 'Succeeded',
  NodeFailed: 'Failed',
  NodeRetryScheduled: 'Waiting',
  NodeSkipped: 'Skipped',
  NodeBlocked: 'Blocked',
  NodeCancelled: 'Cancelled',
  NodeWaiting: 'Waiting',
  NodeReattempted: 'Pending',
  NodeSetByHand: 'Succeeded',
};

/** What is remembered of a node of a snapshot: its values can be large, and the panel asks for those of one. @param {any} node @param {import('./model.js').NodeState | undefined} before */
export function withoutValues({ input: _input, output: _output, ...rest }, before) {
  // The statuses alone say which iterations failed.
  const iterations = rest.iterations && { ...before?.iterations, ...rest.iterations };
  return { ...before, ...rest, ...(iterations ? { iterations } : {}), name: rest.name ?? before?.name };
}

const FINAL = ['Succeeded', 'Failed', 'Cancelled', 'Skipped', 'Blocked'];

/**
 * What is different after an event, or null if it is older than what is known.
 * @param {import('../types/api.js').Event} event @param {import('./model.js').NodeState | undefined} before
 * @returns {Partial<import('./model.js').NodeState> | null}
 */
export function changeOf(event, before) {
  if (before?.startedAt && event.kind === 'NodeStarted' && before.attempts > (event.attempt ?? 0)) return null;
  const status = BECOMES[event.kind];
  /** @type {Partial<import('./model.js').NodeState>} */
  const change = { status };
  if (event.attempt) change.attempts = event.attempt;
  if (event.kind === 'NodeStarted' && (event.attempt ?? 1) === 1) change.startedAt = event.at;
  if (FINAL.includes(status)) change.endedAt = event.at;
  if (event.data?.error) change.error = event.data.error;
  if (event.data?.signal) change.signal = event.data.signal;
  return change;
}

/** The status that a run has after an event, if that changes it. @param {any} event @returns {string | null} */
export function runStatusAfter(event) {
  const known = { RunStarted: 'Running', RunPaused: 'Paused', RunResumed: 'Running' };
  return known[/** @type {keyof typeof known} */ (event.kind)] ?? (event.kind === 'RunFinished' ? event.data?.status : null);
}

/** How far a loop is after one of its iterations began or ended. @param {import('../types/api.js').Event} event @param {any} loop */
export function iterationsAfter(event, loop) {
  if (!loop) return null;
  const started = event.kind === 'IterationStarted';
  return {
    ...loop,
    started: loop.started + (started ? 1 : 0),
    running: Math.max(0, loop.running + (started ? 1 : -1)),
    failed: loop.failed + (!started && event.data?.status === 'Failed' ? 1 : 0),
  };
}

/** What the packed statuses say of the node with a number. @param {import('../types/api.js').Statuses} statuses @param {number} n @param {number} created */
export function stateAt(statuses, n, created) {
  const start = statuses.started[n];
  const took = statuses.took[n];
  const cycle = statuses.loops[n];
  const iterations = cycle && {
    total: cycle.items,
    started: cycle.opened,
    running: cycle.running,
    failed: cycle.failedCount,
    which: cycle.failed,
  };
  return {
    attempts: statuses.attempts[n] ?? (start >= 0 ? 1 : 0),
    startedAt: start >= 0 ? new Date(created + start).toISOString() : null,
    endedAt: took >= 0 ? new Date(created + start + took).toISOString() : null,
    ...(iterations ? { iterations } : {}),
  };
}
