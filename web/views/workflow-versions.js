// The versions of a workflow: what became of the runs of each, and the difference of two.
import { fill, h } from '../lib/dom.js';
import { get, getIfAny, workflowPath } from '../lib/api.js';
import { failure } from '../lib/view.js';
import { setParams } from '../lib/router.js';
import { time } from '../ui/bits.js';
import { duration, number } from '../lib/text.js';
import { GraphElement } from '../graph/view.js';
import { openBoxes, toggleOpen } from '../graph/scene.js';
import { changes, diffMarks } from './workflow-marks.js';

/** Of how many versions the runs are counted: each is a question that takes the server a while. */
const COUNTED = 8;

/** What follows the address while the same two versions are shown. @typedef {(params: URLSearchParams) => void} Follow */

/** What is chosen and opened in the graph of a workflow is in the address. @param {GraphElement} graph */
export function followGraph(graph) {
  graph.addEventListener('pick', (/** @type {any} */ event) => setParams({ node: event.detail }, { replace: true }));
  graph.addEventListener('toggle', (/** @type {any} */ event) => {
    const open = openBoxes(new URLSearchParams(location.search).getAll('open'));
    toggleOpen(open, event.detail);
    setParams({ open: [...open] });
  });
}

/**
 * @param {HTMLElement} place @param {import('../lib/router.js').Route} now
 * @param {{ versions: any[], counted: Map<number, any>, signal: AbortSignal }} known @param {(follow: Follow) => void} follows
 */
export async function drawVersions(place, now, { versions, counted, signal }, follows) {
  const newest = versions[0]?.version ?? 1;
  const to = Number(now.params.get('to')) || newest;
  const from = Number(now.params.get('from')) || Math.max(1, to - 1);
  /** @type {Map<number, HTMLElement>} */
  const cells = new Map();
  const result = h('div', { class: 'stack' });
  const radio = (/** @type {string} */ name, /** @type {number} */ value, /** @type {number} */ chosen) => {
    const box = h('input', {
      type: 'radio',
      name,
      'aria-label': `${name} version ${value}`,
      on: { change: () => setParams({ [name]: value }) },
    });
    box.checked = value === chosen;
    return h('td', null, box);
  };
  fill(
    place,
    h(
      'div',
      { class: 'stack' },
      h(
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
              ['From', 'To', 'Version', 'Published', 'Digest', 'Last 30 days', 'Runs'].map((name) => h('th', null, name)),
            ),
          ),
          h(
            'tbody',
            null,
            versions
              .slice(0, 100)
              .map((item) =>
                h(
                  'tr',
                  null,
                  radio('from', item.version, from),
                  radio('to', item.version, to),
                  h('td', null, h('a', { href: `${location.pathname}?version=${item.version}` }, `Version ${item.version}`)),
                  h('td', { class: 'muted' }, time(item.publishedAt)),
                  h('td', { class: 'mono muted' }, item.digest.slice(0, 16)),
                  runsCell(cells, item.version),
                  h('td', null, h('a', { href: runsHref(now.id, item.version) }, `Runs of version ${item.version}`)),
                ),
              ),
          ),
        ),
      ),
      result,
    ),
  );
  if (versions.length > 1 && from !== to)
    await drawDiff(result, now, [from, to], signal, follows).catch((error) => signal.aborted || fill(result, failure(error)));
  for (const [version, cell] of [...cells].slice(0, COUNTED)) {
    if (!cell.isConnected) return;
    const path = `${workflowPath(now.id)}/statistics?from=30d&version=${version}`;
    const runs = counted.get(version) ?? (await getIfAny(path, signal).catch(() => null))?.runs;
    counted.set(version, runs);
    if (runs) fill(cell, runsOf(runs, version));
  }
}

/** @param {HTMLElement} place @param {import('../lib/router.js').Route} now @param {[number, number]} versions @param {AbortSignal} signal @param {(follow: Follow) => void} follows */
async function drawDiff(place, now, [from, to], signal, follows) {
  const path = workflowPath(now.id);
  const diff = await get(`${path}/diff?from=${from}&to=${to}`, signal);
  const [older, newer] = await Promise.all([get(`${path}?version=${from}`, signal), get(`${path}?version=${to}`, signal)]);
  const graph = new GraphElement();
  fill(place, h('h2', null, `From version ${from} to version ${to}`), changes(diff), h('div', { class: 'graph-box' }, graph));
  if (!graph.isConnected) return;
  let drawn = '';
  const follow = (/** @type {URLSearchParams} */ params) => {
    const open = openBoxes(params.getAll('open'));
    if (!graph.scene || drawn !== String([...open])) {
      drawn = String([...open]);
      const { scene, marks } = diffMarks(older, newer, diff, open);
      graph.setScene(scene, marks);
    }
    graph.select(params.get('node'), true);
  };
  follow(new URLSearchParams(location.search));
  follows(follow);
  followGraph(graph);
}

/** The list of a version's runs. @param {string} id @param {number} version */
export function runsHref(id, version) {
  return `/?workflow=${encodeURIComponent(id)}&version=${version}`;
}

/** Filled when the server has counted them. @param {Map<number, HTMLElement>} cells @param {number} version */
function runsCell(cells, version) {
  const cell = h('td', { class: 'muted' });
  cells.set(version, cell);
  return cell;
}

/** What became of the runs of a version. @param {any} runs @param {number} version */
function runsOf({ examined, failed, complete, p50Ms }, version) {
  if (!examined) return 'none ended';
  return h(
    'a',
    { href: `${location.pathname}?version=${version}&tab=statistics&from=30d` },
    `${number(examined)}${complete ? '' : '+'} ended`,
    failed ? h('span', { class: 'bad' }, ` · ${number(failed)} failed`) : null,
    ` · p50 ${duration(p50Ms)}`,
  );
}
