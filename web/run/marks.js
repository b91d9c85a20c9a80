// What the graph says of a run: by box its status and tally, by edge whether it was taken, and
// which path took the longest.
import { STATUSES, noMarks } from '../graph/paint.js';
import { number } from '../lib/text.js';
import { basePath } from '../graph/body.js';

/** Which of several statuses one box shows: the first of these that any has. */
const LOUDEST = ['Failed', 'Running', 'Waiting', 'Queued', 'Blocked', 'Cancelled', 'Pending', 'Succeeded', 'Skipped'];

/** @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene */
export function makeMarks(model, scene) {
  const marks = noMarks(scene);
  const { id, count, frame, index } = scene.packed.nodes;
  const bodies = model.statuses?.bodies ?? {};
  marks.progress = new Map();
  for (let i = 0; i < scene.count; i++) {
    const node = model.nodes.get(id[i]);
    if (count[i] > 1) group(marks, i, countMembers(model, scene, i));
    else if (frame[i] >= 0) group(marks, i, live(model, bodies[index[i]], id[i]));
    else if (node) {
      marks.status[i] = STATUSES.indexOf(node.status);
      const note = noteOf(node);
      if (note) marks.notes.set(i, note);
      if (node.iterations?.total)
        marks.progress.set(i, Math.min(1, (node.iterations.started - node.iterations.running) / node.iterations.total));
    } else marks.status[i] = 0;
  }
  edgeStates(model, scene, marks);
  marks.critical = criticalPath(model, scene, marks);
  return marks;
}

/** How the instances of a node inside a loop stand: as the statuses count them, or while a run shows an earlier moment, as they are listed. @param {import('./model.js').RunModel} model @param {Record<string, number> | undefined} counted @param {string} base */
function live(model, counted, base) {
  if (counted) return new Map(Object.entries(counted));
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [path, node] of model.nodes)
    if (path.includes('[') && basePath(path) === base) counts.set(node.status, (counts.get(node.status) ?? 0) + 1);
  return counts;
}

/** @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {number} i */
function countMembers(model, scene, i) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [first, count, step] of scene.packed.members[i] ?? []) {
    for (let n = 0; n < count; n++) {
      const status = STATUSES[model.letters[first + n * step]] ?? 'Pending';
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }
  }
  return counts;
}

/** A box that stands for several. @param {import('../graph/paint.js').Marks} marks @param {number} i @param {Map<string, number>} counts */
function group(marks, i, counts) {
  marks.status[i] = STATUSES.indexOf(LOUDEST.find((status) => counts.get(status)) ?? 'Pending');
  if (!counts.size) return;
  const words = [...counts]
    .filter(([, n]) => n)
    .sort(([a], [b]) => LOUDEST.indexOf(a) - LOUDEST.indexOf(b))
    .map(([status, n]) => `${number(n)} ${status.toLowerCase()}`);
  marks.notes.set(i, words.join(' · '));
}

/** The paths of the nodes that a box stands for. @param {import('../graph/scene.js').Scene} scene @param {number} i */
export function membersOf(scene, i) {
  const paths = scene.paths();
  /** @type {string[]} */
  const found = [];
  for (const [first, count, step] of scene.packed.members[i] ?? []) {
    for (let n = 0; n < count; n++) if (paths[first + n * step]) found.push(paths[first + n * step]);
  }
  return found;
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
  const { from, to, kind, label, index, members } = scene.packed.edges;
  const letters = model.statuses?.edges ?? '';
  for (let e = 0; e < from.length; e++) {
    let state = 'UTNL'.indexOf(letters[index[e]] ?? 'U');
    if (members?.[e]) state = loudestEdge(letters, members[e]);
    marks.edge[e] = state > 0 ? state : resolve(STATUSES[marks.status[from[e]]], STATUSES[marks.status[to[e]]], kind[e], Boolean(label[e]));
  }
}

/** @param {string} letters @param {number[][]} members */
function loudestEdge(letters, members) {
  let taken = 0;
  for (const [first, count, step] of members) {
    for (let n = 0; n < count; n++) {
      const state = 'UTNL'.indexOf(letters[first + n * step] ?? 'U');
      if (state === 3) return 3;
      if (state > 0 && taken !== 1) taken = state;
    }
  }
  return taken;
}

/** What an edge must have resolved to, from the statuses at its ends, until the next statuses say it. @param {string | undefined} source @param {string | undefined} target @param {number} kind @param {boolean} conditional */
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

/** @type {WeakMap<import('./model.js').RunModel, { at: number, scene: unknown, path: Set<number> }>} */
const paths = new WeakMap();

/** Back from what ended last, always to what it waited for longest; at most once a second. @param {import('./model.js').RunModel} model @param {import('../graph/scene.js').Scene} scene @param {import('../graph/paint.js').Marks} marks */
function criticalPath(model, scene, marks) {
  const known = paths.get(model);
  if (known && known.scene === scene && model.at === null && performance.now() - known.at < 1000 && scene.count > 200) return known.path;
  /** @type {Set<number>} */
  const path = new Set();
  const now = Date.now();
  const ends = new Float64Array(scene.count);
  let at = -1;
  for (let i = 0; i < scene.count && scene.count <= 20_000; i++) {
    const node = model.nodes.get(scene.id(i));
    if (!node?.startedAt) continue;
    ends[i] = node.endedAt ? Date.parse(node.endedAt) : now;
    if (scene.packed.nodes.frame[i] < 0 && (at < 0 || ends[i] > ends[at])) at = i;
  }
  const seen = new Set();
  while (at >= 0 && !seen.has(at)) {
    seen.add(at);
    let best = -1;
    for (const e of scene.into[at]) {
      const before = scene.packed.edges.from[e];
      if (marks.edge[e] === 1 && ends[before] && (best < 0 || ends[before] > ends[scene.packed.edges.from[best]])) best = e;
    }
    if (best < 0) break;
    path.add(best);
    at = scene.packed.edges.from[best];
  }
  paths.set(model, { at: performance.now(), scene, path });
  return path;
}
