// The moment that is shown: the present, or the event that time travel is at.
import { get, runPath } from '../lib/api.js';

/** The position that an address names, if it names one. @param {URLSearchParams} params @returns {number | null} */
export function momentOf(params) {
  const at = params.get('at') ?? '';
  return /^[1-9]\d{0,14}$/.test(at) ? Number(at) : null;
}

/** Past the end of the log there is the newest event, which the server has shown. @param {number | null} at @param {{ sequence: number }} statuses */
export function within(at, { sequence }) {
  return at === null ? null : Math.min(at, sequence);
}

/** The event after which the run is shown. @param {string} id @param {number} at @param {AbortSignal} signal */
export async function eventAt(id, at, signal) {
  const { items } = await get(`${runPath(id)}/events?after=${at - 1}&limit=1`, signal);
  return items[0] ?? null;
}

/** What the clock says in what is shown. @param {import('./model.js').RunModel} model */
export function clockOf(model) {
  return model.at === null ? Date.now() : Date.parse(model.moment?.at ?? model.exec.startedAt ?? model.exec.createdAt);
}
