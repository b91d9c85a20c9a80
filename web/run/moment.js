// The moment that is shown: the present, or the event that time travel is at.
import { get, runPath } from '../lib/api.js';

/** The event after which the run is shown. @param {string} id @param {number} at @param {AbortSignal} signal */
export async function eventAt(id, at, signal) {
  const { items } = await get(`${runPath(id)}/events?after=${at - 1}&limit=1`, signal);
  return items[0] ?? null;
}

/** What the clock says in what is shown. @param {import('./model.js').RunModel} model */
export function clockOf(model) {
  return model.at === null ? Date.now() : Date.parse(model.moment?.at ?? model.exec.startedAt ?? model.exec.createdAt);
}
