// What the graph says of a run: by box its status and tally, by edge whether it was taken, and
// which path took the longest.
import { EDGE_STATES, STATUSES, noMarks } from '../graph/paint.js';
import { number } from '../lib/text.js';
import { basePath } from './model.js';

/** Which of several statuses one box shows: the first of these that any has. */
const LOUDEST = ['Failed', 'Running', 'Waiting', 'Queued', 'Blocked', 'Cancelled', 'Pending', 'Succeeded', 'Skipped'];

/** @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene */
export function makeMarks(model, scene) {
  const marks = noMarks(scene);
  const inner = tallies(model, scene);
  const { id, count } = scene.packed.nodes;
  marks.progress = new Map();
  for (let i = 0; i < scene.count; i++) {
    const node = model.nodes.get(id[i]);
    if (count[i] > 1) group(model, scene, marks, i);
    else if (node) {
      marks.status[i] = STATUSES.indexOf(node.status);
      const note = noteOf(node);
      if (note) marks.notes.set(i, note);
      if (node.iterations?.total) marks.progress.set(i, Math.min(1, (node.iterations.started - node.iterations.running) / node.iterations.total));
    } else if (inner.has(id[i])) {
      const counts = /** @type {Map<string, number>} */ (inner.get(id[i]));
      marks.status[i] = STATUSES.indexOf(LOUDEST.find((status) => counts.has(status)) ?? 'Pending');
      marks.notes.set(i, [...counts].sort(([a], [b]) => LOUDEST.indexOf(a) - LOUDEST.indexOf(b)).map(([status, n]) => `${number(n)} ${status.toLowerCase()}`).join(' · '));
    } else marks.status[i] = 0;
  }
  edgeStates(model, scene, marks);
  criticalPath(model, scene, marks);
  return marks;
}

/** By path without iterations, how many instances stand where. @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene */
function tallies(model, scene) {
  /** @type {Map<string, Map<string, number>>} */
  const found = new Map();
  if (!scene.opened.size) return found;
  for (const [path, node] of model.nodes) {
    const base = basePath(path);
    if (base === path) continue;
    let counts = found.get(base);
    if (!counts) found.set(base, (counts = new Map()));
    counts.set(node.status, (counts.get(node.status) ?? 0) + 1);
  }
  return found;
}

/** A box that stands for several nodes. @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {import('../graph/paint.js').Marks} marks @param {number} i */
function group(model, scene, marks, i) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const path of membersOf(model, scene, i)) {
    const status = model.nodes.get(path)?.status ?? 'Pending';
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  if (!counts.size) return;
  marks.status[i] = STATUSES.indexOf(LOUDEST.find((status) => counts.has(status)) ?? 'Pending');
  marks.notes.set(i, [...counts].map(([status, n]) => `${number(n)} ${status.toLowerCase()}`).join(' · '));
}

/** The paths of the nodes that a box stands for. @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {number} i */
export function membersOf(model, scene, i) {
  const ids = scene.packed.ids ?? topLevel(model);
  /** @type {string[]} */
  const paths = [];
  for (const [first, count, step] of scene.packed.members[i] ?? []) {
    for (let n = 0; n < count; n++) if (ids[first + n * step]) paths.push(ids[first + n * step]);
  }
  return paths;
}

/** @param {import('./model.js').RunModel} model @returns {string[]} */
function topLevel(model) {
  return (model.definition?.nodes ?? []).map((/** @type {any} */ node) => node.id);
}

/** @param {import('./model.js').NodeState} node */
function noteOf(node) {
  if (node.iterations) {
    const { total, started, running, failed } = node.iterations;
    const done = started - running;
    return `${number(done)}${total ? ` of ${number(total)}` : ''} done${running ? ` · ${number(running)} running` : ''}${failed ? ` · ${number(failed)} failed` : ''}`;
  }
  if (node.status === 'Failed' && node.error?.code) return node.error.code;
  if (node.status === 'Waiting' && node.signal) return `waits for ${node.signal}`;
  if (node.attempts > 1) return `attempt ${node.attempts}`;
  return null;
}

/** @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {import('../graph/paint.js').Marks} marks */
function edgeStates(model, scene, marks) {
  const known = new Map(model.drawnEdges.map((edge) => [`${edge.from} ${edge.to} ${edge.when}`, EDGE_STATES.indexOf(edge.state)]));
  const { from, to, kind, label } = scene.packed.edges;
  for (let e = 0; e < from.length; e++) {
    const [a, b] = [scene.id(from[e]), scene.id(to[e])];
    const drawn = known.get(`${a} ${b} ${['success', 'failure', 'always'][kind[e]]}`);
    const guess = resolve(STATUSES[marks.status[from[e]]], STATUSES[marks.status[to[e]]], kind[e], Boolean(label[e]));
    marks.edge[e] = drawn !== undefined && drawn > 0 ? drawn : guess;
  }
}

/** What an edge must have resolved to, from the statuses at its ends. @param {string | undefined} source @param {string | undefined} target @param {number} kind @param {boolean} conditional */
function resolve(source, target, kind, conditional) {
  if (!source || ['Pending', 'Queued', 'Running', 'Waiting'].includes(source)) return 0;
  if (source === 'Skipped') return 2;
  if (source === 'Cancelled') return 3;
  if (source === 'Blocked' && kind !== 2) return 3;
  if (source === 'Failed' && kind === 0) return 3;
  if (source === 'Succeeded' && kind === 1) return 2;
  if (target === 'Skipped') return 2;
  return conditional && target === 'Pending' ? 0 : 1;
}

/** Back from what ended last, always to what it waited for longest. @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {import('../graph/paint.js').Marks} marks */
function criticalPath(model, scene, marks) {
  if (scene.count > 20_000) return;
  const end = (/** @type {number} */ i) => {
    const node = model.nodes.get(scene.id(i));
    return node?.startedAt ? Date.parse(node.endedAt ?? '') || Date.now() : 0;
  };
  let at = -1;
  for (let i = 0; i < scene.count; i++) if (scene.packed.nodes.frame[i] < 0 && end(i) && (at < 0 || end(i) > end(at))) at = i;
  for (let steps = 0; at >= 0 && steps < scene.count; steps++) {
    let best = -1;
    for (const e of scene.into[at]) {
      if (marks.edge[e] !== 1 || !end(scene.packed.edges.from[e])) continue;
      if (best < 0 || end(scene.packed.edges.from[e]) > end(scene.packed.edges.from[best])) best = e;
    }
    if (best < 0) return;
    marks.critical.add(best);
    at = scene.packed.edges.from[best];
  }
}
