// Rows of the list of runs: status, cause, what it waits for, labels, duration. Child runs are
// folded under their parent.
import { fill, h } from '../lib/dom.js';
import { badge, ended, tone } from '../lib/status.js';
import { duration, plural, relative, shortId } from '../lib/text.js';
import { runHref, withParams } from '../lib/router.js';
import { medianOf } from './medians.js';
import { copyButton, labelChips, runLink, time } from '../ui/bits.js';

/** How far child runs are opened in place. */
const DEEPEST = 6;

/** @typedef {import('../lib/dom.js').Parts} Parts */

/** Child runs by parent; null while they are on their way. @typedef {Map<string, any[] | null>} Opened */

/**
 * The rows; one that shows the same as before is the same element, so that a click on it arrives and
 * what is selected in it stays.
 * @param {any[]} items @param {Opened} open @param {(id: string) => void} toggle @param {Parts} parts
 */
export function rowsOf(items, open, toggle, parts) {
  const rows = [parts.part('head', null, head)];
  const names = new Set(['head']);
  const add = (/** @type {any} */ run, /** @type {number} */ depth) => {
    const children = open.get(run.executionId);
    const median = medianOf(run.workflowId);
    const name = `${depth} ${run.executionId}`;
    const shows = [shownOf(run), median, children !== undefined, location.search];
    const element = parts.part(name, shows, () => row(run, median, depth, children !== undefined, () => toggle(run.executionId)));
    if (!run.endedAt && element.lastElementChild) fill(element.lastElementChild, took(run, median));
    names.add(name);
    rows.push(element);
    if (children && depth < DEEPEST) for (const child of children) add(child, depth + 1);
  };
  for (const run of items) add(run, 0);
  parts.sweep((name) => names.has(name));
  return rows;
}

/** What a row shows of a run, apart from the duration of one that goes on. @param {any} run */
export function shownOf(run) {
  // `wakeAt` is shown as a time from now.
  return { ...run, updatedAt: null, now: run.wakeAt ? Math.floor(Date.now() / 15_000) : 0 };
}

function head() {
  const names = ['Status', 'Workflow', 'What happened', 'Created', 'Duration'];
  return h(
    'div',
    { class: 'run-row head', role: 'row' },
    names.map((name) => h('span', { role: 'columnheader' }, name)),
  );
}

/** @param {any} run @param {number | undefined} typical @param {number} depth @param {boolean} open @param {() => void} toggle */
function row(run, typical, depth, open, toggle) {
  const href = runHref(run.executionId);
  const element = h(
    'div',
    { class: `run-row${depth ? ' inner' : ''} edge-${tone(stateOf(run)[0])}`, role: 'row', style: depth ? { '--depth': depth } : {} },
    h(
      'span',
      { role: 'cell', class: 'cell-status' },
      h(
        'a',
        { href, class: 'plain', 'aria-label': `${stateOf(run)[1] ?? stateOf(run)[0]}: ${run.workflowId} ${shortId(run.executionId)}` },
        badge(...stateOf(run)),
      ),
    ),
    h(
      'span',
      { role: 'cell', class: 'cell-name' },
      h('a', { href, class: 'strong' }, run.workflowId),
      h(
        'span',
        { class: 'sub' },
        runLink(run.executionId),
        copyButton(run.executionId, 'Copy the id'),
        run.version ? ` v${run.version}` : ' dynamic',
      ),
    ),
    h(
      'span',
      { role: 'cell', class: 'cell-what' },
      what(run),
      run.parent && !depth ? h('span', { class: 'muted' }, 'child of ', runLink(run.parent)) : null,
      labelChips(run.labels, (key, value) => withParams({ label: `${key}=${value}` })),
      run.children && depth < DEEPEST
        ? h(
            'button',
            { type: 'button', class: 'link fold', 'aria-expanded': String(open), on: { click: toggle } },
            `${open ? '▾' : '▸'} ${plural(run.children, 'child run')}`,
          )
        : null,
    ),
    h('span', { role: 'cell', class: 'cell-time muted' }, time(run.createdAt)),
    h('span', { role: 'cell', class: 'cell-duration' }, took(run, typical)),
  );
  return element;
}

/** The status as its shape, and the word where that says more. @param {any} run @returns {[string, string | undefined]} */
function stateOf(run) {
  if (run.dead) return ['Failed', 'Dead letter'];
  if (run.state === 'waiting') return ['Waiting', undefined];
  if (run.state === 'orphaned') return ['Blocked', 'Orphaned'];
  return [run.status, undefined];
}

/** Why it failed, or what it waits for. @param {any} run */
export function what(run) {
  if (run.dead)
    return h(
      'span',
      { class: 'cause bad' },
      'The engine gave this run up. ',
      h('a', { href: '/operations?tab=dead-letters' }, 'Requeue or purge it'),
    );
  if (run.state === 'orphaned') return h('span', { class: 'cause wait' }, 'No process executes this run: one that takes it over is awaited');
  if (run.error) return causeWords(run);
  if (run.waitsFor) return h('span', { class: 'cause wait' }, `Waits ${run.waitsFor}`);
  if (run.status === 'Pending')
    return h(
      'span',
      { class: 'cause muted' },
      run.gate ? `Queued: at most ${run.gateLimit} with the key ${run.gate} execute at once` : 'Queued: waits for room',
    );
  if (run.status === 'Paused') return h('span', { class: 'cause wait' }, 'Paused: starts nothing until it is resumed');
  if (!ended(run.status) && run.asleep)
    return h(
      'span',
      { class: 'cause wait' },
      run.wakeAt ? `Waits; wakes ${relative(Date.parse(run.wakeAt))}` : 'Waits for a signal or a child run',
    );
  return null;
}

/** The root cause: its code, its words, and where it happened. @param {any} run */
function causeWords(run) {
  const { code, at, words, more } = rootCause(run);
  return h(
    'span',
    { class: 'cause', title: run.error.message ?? '' },
    h('a', { class: 'mono bad', href: withParams({ error: code, status: 'Failed' }), title: `Only failures with ${code}` }, code),
    ' ',
    words,
    more ? h('span', { class: 'muted' }, ` and ${plural(more, 'other cause')}`) : null,
    at ? h('span', { class: 'muted' }, ` · ${at}`) : null,
    run.forkedAs?.length ? h('span', { class: 'muted' }, ' · forked as ', runLink(run.forkedAs.at(-1))) : null,
  );
}

/**
 * The error of a run in the list says where it failed, with which code, and why, in one sentence.
 * @param {any} run
 */
export function rootCause(run) {
  const code = run.causeCodes?.[0] ?? run.error.code;
  const message = String(run.error.message ?? '');
  const mark = ` failed: ${code}: `;
  const place = message.indexOf(mark);
  return {
    code,
    at: place > 0 ? message.slice(0, place) : '',
    words: place > 0 ? message.slice(place + mark.length) : message,
    more: Math.max(0, (run.causeCodes?.length ?? 1) - 1),
  };
}

/** The duration, and how it compares. @param {any} run @param {number | undefined} typical */
function took(run, typical) {
  if (!run.startedAt) return h('span', { class: 'muted' }, '–');
  const ms = (run.endedAt ? Date.parse(run.endedAt) : Date.now()) - Date.parse(run.startedAt);
  const ratio = typical ? ms / Math.max(typical, 1) : 0;
  const slow = ratio >= 2 && ms > 1000;
  return h(
    'span',
    {
      class: `took${slow ? ' wait' : ''}`,
      title: typical ? `The median of this workflow's succeeded runs is ${duration(typical)}` : null,
    },
    duration(ms),
    slow ? h('small', null, ` ×${ratio < 10 ? ratio.toFixed(1) : Math.round(ratio)}`) : null,
  );
}
