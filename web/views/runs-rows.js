// Rows of the list of runs: status, cause, what it waits for, labels, duration. Child runs are
// folded under their parent.
import { h } from '../lib/dom.js';
import { badge, ended, tone } from '../lib/status.js';
import { duration, plural, relative, shortId } from '../lib/text.js';
import { runHref, withParams } from '../lib/router.js';
import { copyButton, labelChips, runLink, time } from '../ui/bits.js';

/** @typedef {{ run: any, children: any[] }} Family a run is null where the parent is not loaded */

/** Children under their parents, in the order of the list. @param {any[]} items @returns {Family[]} */
export function fold(items) {
  /** @type {Map<string, Family>} */
  const families = new Map();
  const ids = new Set(items.map((item) => item.executionId));
  /** @type {Map<string, string>} */
  const roots = new Map(items.map((item) => [item.executionId, item.parent]));
  /** @type {Family[]} */
  const order = [];
  const family = (/** @type {string} */ id) => {
    let found = families.get(id);
    if (!found) {
      found = { run: null, children: [] };
      families.set(id, found);
      order.push(found);
    }
    return found;
  };
  for (const item of items) {
    if (!item.parent) {
      family(item.executionId).run = item;
      continue;
    }
    let root = item.parent;
    for (let depth = 0; depth < 100 && ids.has(root) && roots.get(root); depth++) root = roots.get(root);
    family(root).children.push(item);
  }
  return order;
}

/** The median duration of each workflow's succeeded runs in the list. @param {Family[]} families */
function medians(families) {
  /** @type {Map<string, number[]>} */
  const all = new Map();
  for (const item of families.flatMap((f) => (f.run ? [f.run, ...f.children] : f.children))) {
    if (item.status !== 'Succeeded' || !item.startedAt || !item.endedAt) continue;
    const list = all.get(item.workflowId) ?? [];
    list.push(Date.parse(item.endedAt) - Date.parse(item.startedAt));
    all.set(item.workflowId, list);
  }
  return new Map([...all].filter(([, list]) => list.length >= 3).map(([id, list]) => [id, list.sort((a, b) => a - b)[list.length >> 1]]));
}

/** @param {Family[]} families @param {Set<string>} open @param {(id: string) => void} toggle */
export function rowsOf(families, open, toggle) {
  const typical = medians(families);
  const rows = [
    h(
      'div',
      { class: 'run-row head', role: 'row' },
      ['Status', 'Workflow', 'What happened', 'Created', 'Duration'].map((name) => h('span', { role: 'columnheader' }, name)),
    ),
  ];
  for (const { run, children } of families) {
    const id = run?.executionId ?? children[0].parent;
    rows.push(
      run ? row(run, typical, children.length, open.has(id), () => toggle(id)) : orphanRow(id, children, open.has(id), () => toggle(id)),
    );
    if (open.has(id)) for (const child of children.slice(0, 200)) rows.push(row(child, typical, 0, false, null, true));
  }
  return rows;
}

/**
 * @param {any} run @param {Map<string, number>} typical @param {number} children
 * @param {boolean} open @param {(() => void) | null} toggle @param {boolean} [inner]
 */
function row(run, typical, children, open, toggle, inner = false) {
  const href = runHref(run.executionId);
  const element = h(
    'div',
    { class: `run-row${inner ? ' inner' : ''} edge-${tone(run.status)}`, role: 'row' },
    h(
      'span',
      { role: 'cell', class: 'cell-status' },
      h(
        'a',
        { href, class: 'plain', 'aria-label': `${run.status}: ${run.workflowId} ${shortId(run.executionId)}` },
        badge(run.dead ? 'Failed' : run.status, run.dead ? 'Dead letter' : undefined),
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
      labelChips(run.labels, (key, value) => withParams({ label: `${key}=${value}` })),
      children && toggle
        ? h(
            'button',
            { type: 'button', class: 'link fold', 'aria-expanded': String(open), on: { click: toggle } },
            `${open ? '▾' : '▸'} ${plural(children, 'child run')}`,
          )
        : null,
    ),
    h('span', { role: 'cell', class: 'cell-time muted' }, time(run.createdAt)),
    h('span', { role: 'cell', class: 'cell-duration' }, took(run, typical.get(run.workflowId))),
  );
  return element;
}

/** @param {string} parent @param {any[]} children @param {boolean} open @param {() => void} toggle */
function orphanRow(parent, children, open, toggle) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const child of children) counts[child.status] = (counts[child.status] ?? 0) + 1;
  return h(
    'div',
    { class: 'run-row orphan', role: 'row' },
    h(
      'span',
      { role: 'cell' },
      Object.entries(counts).map(([status, n]) => badge(status, String(n))),
    ),
    h(
      'span',
      { role: 'cell', class: 'cell-name' },
      h(
        'button',
        { type: 'button', class: 'link fold', 'aria-expanded': String(open), on: { click: toggle } },
        `${open ? '▾' : '▸'} ${plural(children.length, 'child run')}`,
      ),
    ),
    h('span', { role: 'cell', class: 'cell-what muted' }, h('span', null, 'of ', runLink(parent))),
    h('span', { role: 'cell', class: 'cell-time muted' }, time(children[0].createdAt)),
    h('span', { role: 'cell' }),
  );
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
  if (run.error)
    return h(
      'span',
      { class: 'cause', title: run.error.message ?? '' },
      h('code', { class: 'bad' }, run.error.code),
      ' ',
      run.error.message ?? '',
    );
  if (run.waitReason ?? run.why) return h('span', { class: 'cause wait' }, String(run.waitReason ?? run.why));
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
      title: typical ? `The median of the succeeded runs in this list is ${duration(typical)}` : null,
    },
    duration(ms),
    slow ? h('small', null, ` ×${ratio < 10 ? ratio.toFixed(1) : Math.round(ratio)}`) : null,
  );
}
