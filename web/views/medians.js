// How long runs of a workflow usually take: the median of its newest succeeded ones, from the
// server's statistics. Asked for after the rows are drawn, one workflow at a time, and kept.
import { getIfAny, workflowPath } from '../lib/api.js';

/** Each answer makes the server read so many runs. */
const RUNS = 50;
/** The workflows of one list that are asked for. */
const MOST = 10;
const KEPT_MS = 300_000;

/** @type {Map<string, { at: number, median: number | undefined }>} */
const known = new Map();

/** @param {string} workflow @returns {number | undefined} */
export function medianOf(workflow) {
  return known.get(workflow)?.median;
}

/** Reads what is missing or old; whether there is something new. @param {any[]} runs @param {AbortSignal} signal */
export async function readMedians(runs, signal) {
  const now = Date.now();
  const isOld = (/** @type {string} */ id) => now - (known.get(id)?.at ?? 0) > KEPT_MS;
  const published = runs.filter((run) => run.version).map((run) => String(run.workflowId));
  let changed = false;
  for (const id of [...new Set(published)].slice(0, MOST).filter(isOld)) {
    const answer = await getIfAny(`${workflowPath(id)}/statistics?from=30d&runs=${RUNS}`, signal).catch(() => null);
    if (signal.aborted) return false;
    const median = answer?.runs?.p50Ms ?? undefined;
    changed ||= median !== medianOf(id);
    known.set(id, { at: now, median });
  }
  return changed;
}
