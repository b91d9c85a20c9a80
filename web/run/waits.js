// What a run waits for: at present the server says why, of an earlier moment the model knows it.
import { number, utc } from '../lib/text.js';

/** How many waits are named. */
export const NAMED = 3;

/** @typedef {{ node: string | null, reason: string }} Wait */

/** What the run waited for at the moment that is shown, and how many more nodes did. @param {import('./model.js').RunModel} model @returns {Wait[]} */
export function waitsThen(model) {
  const { status } = model.exec;
  if (status === 'Pending') return [{ node: null, reason: 'The run was queued and had not started.' }];
  /** @type {Wait[]} */
  const waits = status === 'Paused' ? [{ node: null, reason: 'The run was paused.' }] : [];
  let more = 0;
  for (const [path, node] of model.nodes) {
    if (node.status !== 'Waiting') continue;
    if (waits.length < NAMED) waits.push({ node: path, reason: reasonOf(model, path, node) });
    else more += 1;
  }
  if (more) waits.push({ node: null, reason: `and ${number(more)} more` });
  return waits;
}

/** @param {import('./model.js').RunModel} model @param {string} path @param {import('./model.js').NodeState} node */
function reasonOf(model, path, node) {
  const kind = model.scene?.kindOf(path);
  const until = node.due ? ` until ${utc(node.due)}` : '';
  if (node.signal) return `waited for signal '${node.signal}'${until}`;
  if (kind === 'signal') return `waited for a ${model.scene?.detailOf(path)}${until}`;
  if (kind === 'delay' || node.kind === 'delay') return `waited${until}`;
  return `waited for its next attempt, after ${number(node.attempts)}${node.due ? `: it was due at ${utc(node.due)}` : ''}`;
}
