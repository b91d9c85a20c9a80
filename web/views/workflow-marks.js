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

/** @typedef {Map<string, { how: import('../graph/paint.js').Change, note: string }>} Differences */

/**
 * Both versions in one graph: what is new, what is gone, what is different, also inside the loops
 * that are opened.
 * @param {any} older @param {any} newer @param {any} diff @param {Set<string>} [open]
 */
export function diffMarks(older, newer, diff, open = new Set()) {
  /** @type {Differences} */
  const found = new Map();
  for (const id of diff.nodes?.added ?? []) found.set(id, { how: 'added', note: 'added' });
  for (const id of diff.nodes?.removed ?? []) found.set(id, { how: 'removed', note: 'removed' });
  for (const [id, keys] of Object.entries(diff.nodes?.changed ?? {})) found.set(id, { how: 'changed', note: /** @type {string[]} */ (keys).join(', ') });
  const nodes = both(older.nodes ?? [], newer.nodes ?? [], '', found);
  const scene = new Scene(layoutDraft({ ...newer, nodes }, open));
  const marks = noMarks(scene);
  for (const [path, { how, note }] of found) {
    const i = scene.byId.get(path);
    if (i === undefined) continue;
    marks.changes.set(i, how);
    marks.notes.set(i, note);
  }
  const { from, to } = scene.packed.edges;
  const edges = { added: new Set(diff.edges?.added ?? []), removed: new Set(diff.edges?.removed ?? []) };
  for (let e = 0; e < from.length; e++) {
    const name = `${scene.id(from[e])} → ${scene.id(to[e])}`;
    marks.edge[e] = edges.removed.has(name) ? 3 : 1;
    if (edges.added.has(name)) marks.critical.add(e);
  }
  return { scene, marks };
}

/** The nodes of two bodies: those of the newer with the edges that led to what is gone, then what is gone. @param {any[]} older @param {any[]} newer @param {string} inside @param {Differences} found @returns {any[]} */
function both(older, newer, inside, found) {
  const before = new Map(older.map((node) => [node.id, node]));
  const names = new Set(newer.map((node) => node.id));
  const gone = older.filter((node) => !names.has(node.id));
  const lost = new Set(gone.map((node) => node.id));
  const merged = newer.map((node) => {
    const old = before.get(node.id);
    const path = inside + node.id;
    const edges = (old?.edges ?? []).filter((/** @type {any} */ edge) => lost.has(edge.targetNode));
    const whole = edges.length ? { ...node, edges: [...(node.edges ?? []), ...edges] } : node;
    if (found.get(path)?.how !== 'changed') return whole;
    const kind = ['forEach', 'while', 'retryUntil'].find((name) => node[name]?.body && old?.[name]?.body);
    if (!kind) return whole;
    const [was, is] = [old[kind].body.nodes ?? [], node[kind].body.nodes ?? []];
    compare(was, is, `${path}/`, found);
    return { ...whole, [kind]: { ...node[kind], body: { ...node[kind].body, nodes: both(was, is, `${path}/`, found) } } };
  });
  return [...merged, ...gone];
}

/** What differs in a body. The server says it of the top level. @param {any[]} older @param {any[]} newer @param {string} inside @param {Differences} found */
function compare(older, newer, inside, found) {
  const before = new Map(older.map((node) => [node.id, node]));
  for (const node of newer) {
    const old = before.get(node.id);
    before.delete(node.id);
    if (!old) found.set(inside + node.id, { how: 'added', note: 'added' });
    else {
      const keys = [...new Set([...Object.keys(old), ...Object.keys(node)])].filter((key) => JSON.stringify(old[key]) !== JSON.stringify(node[key]));
      if (keys.length) found.set(inside + node.id, { how: 'changed', note: keys.join(', ') });
    }
  }
  for (const id of before.keys()) found.set(inside + id, { how: 'removed', note: 'removed' });
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
