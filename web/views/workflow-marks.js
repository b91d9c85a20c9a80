// What a workflow's graph says: statistics by node, or the difference of two versions.
import { h } from '../lib/dom.js';
import { duration, number } from '../lib/text.js';
import { noMarks } from '../graph/paint.js';
import { Scene } from '../graph/scene.js';
import { layoutDraft } from '../graph/draft.js';

/** @typedef {{ node: string, runs: number, failures: number, p50: number | null, p95: number | null }} NodeStatistics */

/** @param {import('../types/api.js').WorkflowStatistics} answer @returns {NodeStatistics[]} */
export function nodeStatistics(answer) {
  return Object.entries(answer.nodes).map(([node, item]) => ({
    node,
    runs: item.runs,
    failures: item.failures,
    p50: item.p50Ms ?? null,
    p95: item.p95Ms ?? null,
  }));
}

/** @param {number} failures @param {number} runs */
function rate(failures, runs) {
  return runs ? `${((failures / runs) * 100).toFixed(failures && failures / runs < 0.1 ? 1 : 0)} %` : '–';
}

/** Two durations in few letters: `4/12 ms`. @param {number | null} low @param {number | null} high */
export function pair(low, high) {
  const [first, second] = [duration(low), duration(high)];
  const [value, unit] = first.split(' ');
  return unit && second.endsWith(` ${unit}`) && !/\d[hdms] /.test(second) ? `${value}/${second}` : `${first} / ${second}`;
}

/** @param {Scene} scene @param {any} answer */
export function statisticsMarks(scene, answer) {
  const marks = noMarks(scene);
  for (const item of nodeStatistics(answer)) {
    const i = scene.byId.get(item.node);
    if (i === undefined || !item.runs) continue;
    marks.notes.set(i, `${item.failures ? `${rate(item.failures, item.runs).replace(' ', '')} · ` : ''}${pair(item.p50, item.p95)}`);
    if (item.failures) marks.changes.set(i, item.failures / item.runs > 0.2 ? 'failing' : 'flaky');
  }
  return marks;
}

/** @param {any} answer */
export function statisticsTable(answer) {
  const rows = nodeStatistics(answer).sort(
    (a, b) => b.failures / Math.max(b.runs, 1) - a.failures / Math.max(a.runs, 1) || (b.p95 ?? 0) - (a.p95 ?? 0),
  );
  return h(
    'div',
    { class: 'table-wrap', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    h(
      'table',
      null,
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          h('th', null, 'Node'),
          ['Runs', 'Failures', 'Failure rate', 'p50', 'p95'].map((name) => h('th', { class: 'num' }, name)),
        ),
      ),
      h(
        'tbody',
        null,
        rows
          .slice(0, 1000)
          .map((item) =>
            h(
              'tr',
              null,
              h('td', { class: 'mono' }, item.node),
              h('td', { class: 'num' }, number(item.runs)),
              h('td', { class: 'num' }, number(item.failures)),
              h('td', { class: `num ${item.failures ? 'bad' : ''}` }, rate(item.failures, item.runs)),
              h('td', { class: 'num' }, duration(item.p50)),
              h('td', { class: 'num' }, duration(item.p95)),
            ),
          ),
      ),
    ),
  );
}

/** Both versions in one graph: what is new, what is gone, what is different. @param {any} older @param {any} newer @param {any} diff */
export function diffMarks(older, newer, diff) {
  const removed = new Set(diff.nodes?.removed ?? []);
  const gone = (older.nodes ?? []).filter((/** @type {any} */ node) => removed.has(node.id));
  const before = new Map((older.nodes ?? []).map((/** @type {any} */ node) => [node.id, node]));
  const nodes = (newer.nodes ?? []).map((/** @type {any} */ node) => {
    const lost = (before.get(node.id)?.edges ?? []).filter((/** @type {any} */ edge) => removed.has(edge.targetNode));
    return lost.length ? { ...node, edges: [...(node.edges ?? []), ...lost] } : node;
  });
  const scene = new Scene(layoutDraft({ ...newer, nodes: [...nodes, ...gone] }));
  const marks = noMarks(scene);
  const set = (/** @type {string} */ id, /** @type {'added' | 'removed' | 'changed'} */ how) => {
    const i = scene.byId.get(id);
    if (i !== undefined) marks.changes.set(i, how);
  };
  for (const id of diff.nodes?.added ?? []) set(id, 'added');
  for (const id of removed) set(String(id), 'removed');
  for (const [id, keys] of Object.entries(diff.nodes?.changed ?? {})) {
    set(id, 'changed');
    const i = scene.byId.get(id);
    if (i !== undefined) marks.notes.set(i, /** @type {string[]} */ (keys).join(', '));
  }
  for (const [i, how] of marks.changes) if (!marks.notes.has(i)) marks.notes.set(i, how);
  const { from, to } = scene.packed.edges;
  const edges = { added: new Set(diff.edges?.added ?? []), removed: new Set(diff.edges?.removed ?? []) };
  for (let e = 0; e < from.length; e++) {
    const name = `${scene.id(from[e])} → ${scene.id(to[e])}`;
    marks.edge[e] = edges.removed.has(name) ? 3 : 1;
    if (edges.added.has(name)) marks.critical.add(e);
  }
  return { scene, marks };
}

/** What differs, in words. @param {any} diff */
export function changes(diff) {
  const line = (/** @type {string} */ tone, /** @type {string} */ word, /** @type {string[]} */ names) =>
    names.length
      ? h(
          'div',
          null,
          h('span', { class: tone }, `${word} `),
          names.slice(0, 60).map((name) => [h('code', { class: 'chip wrap' }, name), ' ']),
        )
      : null;
  const changed = Object.entries(diff.nodes?.changed ?? {}).map(([id, keys]) => `${id} (${/** @type {string[]} */ (keys).join(', ')})`);
  const lines = [
    line('good', '+ nodes', diff.nodes?.added ?? []),
    line('bad', '− nodes', diff.nodes?.removed ?? []),
    line('wait', '~ nodes', changed),
    line('good', '+ edges', diff.edges?.added ?? []),
    line('bad', '− edges', diff.edges?.removed ?? []),
    line('wait', '~ keys', diff.keys ?? []),
  ].filter(Boolean);
  return h('div', { class: 'panel stack' }, lines.length ? lines : 'Nothing differs.');
}
