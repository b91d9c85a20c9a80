// The filters of the list of runs: from the address to the API, to the command line, and back.
import { fill, h } from '../lib/dom.js';
import { RUN_STATUSES, badge } from '../lib/status.js';
import { setParams, withParams } from '../lib/router.js';
import { getIfAny } from '../lib/api.js';
import { shell } from '../lib/text.js';

const TIMES = [
  ['', 'Any time'],
  ['15m', 'Last 15 minutes'],
  ['1h', 'Last hour'],
  ['6h', 'Last 6 hours'],
  ['1d', 'Last day'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

const ONLY = [
  ['', 'All of these'],
  ['waiting', 'Waiting'],
  ['unresolved', 'Not forked yet'],
  ['dead', 'Dead letters'],
  ['orphaned', 'Orphaned'],
];

/**
 * What the address asks for: as the query of the API, as the filter of a bulk request, as
 * words of a command.
 * @param {URLSearchParams} params
 */
export function listQuery(params) {
  const search = new URLSearchParams();
  /** @type {Record<string, any>} */
  const filter = {};
  let words = '';
  for (const key of ['workflow', 'version', 'from', 'parent', 'error']) {
    const value = params.get(key);
    if (!value) continue;
    search.set(key, value);
    // What is no number goes as it is: the server refuses it, and must not take it for none.
    filter[key] = key === 'version' && /^\d+$/.test(value) ? Number(value) : value;
    words += ` --filter ${shell(`${key === 'from' ? 'since' : key}=${value}`)}`;
  }
  for (const key of ['status', 'label']) {
    const values = params.getAll(key).filter(Boolean);
    if (!values.length) continue;
    for (const value of values) search.append(key, value);
    filter[key] = values;
    words += values.map((value) => ` --filter ${shell(key === 'label' ? `label.${value}` : `status=${value}`)}`).join('');
  }
  for (const key of ['waiting', 'dead', 'orphaned', 'unresolved']) {
    if (params.get('only') !== key) continue;
    search.set(key, 'true');
    filter[key] = true;
    words += ` --filter ${key}`;
  }
  // As in `windlass runs`: child runs are folded unless a condition may be about one of them.
  if (!['workflow', 'parent', 'waiting', 'dead', 'orphaned'].some((key) => key in filter)) {
    search.set('children', 'false');
    filter.children = false;
  }
  return { search, filter, words };
}

/** @type {string[] | null} */
let known = null;

/** @param {HTMLElement} bar @param {URLSearchParams} params */
export function filterBar(bar, params) {
  const chosen = params.getAll('status');
  const statuses = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Status' },
    h('a', { href: withParams({ status: null }), 'aria-current': chosen.length ? null : 'true' }, 'All'),
    RUN_STATUSES.map((status) => {
      const on = chosen.includes(status);
      const next = on ? chosen.filter((s) => s !== status) : [...chosen, status];
      return h('a', { href: withParams({ status: next }), 'aria-current': on ? 'true' : null }, badge(status));
    }),
  );
  const workflow = h('input', {
    type: 'text',
    list: 'known-workflows',
    value: params.get('workflow') ?? '',
    placeholder: 'Workflow',
    'aria-label': 'Workflow',
    spellcheck: 'false',
  });
  const names = h('datalist', { id: 'known-workflows' });
  const label = h('input', { type: 'text', placeholder: 'Label k=v', 'aria-label': 'Add a label filter', spellcheck: 'false' });
  const error = h('input', {
    type: 'text',
    placeholder: 'Error code',
    'aria-label': 'Error code',
    value: params.get('error') ?? '',
    spellcheck: 'false',
  });
  const only = choice('Only', ONLY);
  only.value = params.get('only') ?? '';
  const since = choice('Time', TIMES);
  if (!TIMES.some(([value]) => value === (params.get('from') ?? '')))
    since.append(h('option', { value: params.get('from') }, `From ${params.get('from')}`));
  since.value = params.get('from') ?? '';
  workflow.addEventListener('change', () => setParams({ workflow: workflow.value.trim(), version: null }));
  label.addEventListener('change', () => {
    const word = label.value.trim();
    if (/^[^=]+=/.test(word)) setParams({ label: [...params.getAll('label'), word] });
  });
  error.addEventListener('change', () => setParams({ error: error.value.trim() }));
  only.addEventListener('change', () => setParams({ only: only.value }));
  since.addEventListener('change', () => setParams({ from: since.value }));
  const chips = params.getAll('label').map((word) => removable(word, { label: params.getAll('label').filter((w) => w !== word) }));
  if (params.get('version')) chips.unshift(removable(`version ${params.get('version')}`, { version: null }));
  if (params.get('parent')) chips.push(removable(`children of ${params.get('parent')?.slice(0, 13)}`, { parent: null }));
  const clear = params.size ? h('a', { class: 'muted clear', href: '/' }, 'Clear') : null;
  fill(bar, statuses, workflow, names, error, label, only, since, chips, clear);
}

/** @param {string} name @param {string[][]} options */
function choice(name, options) {
  return h(
    'select',
    { 'aria-label': name },
    options.map(([value, words]) => h('option', { value }, words)),
  );
}

/** @param {string} word @param {Record<string, any>} changes */
function removable(word, changes) {
  return h(
    'a',
    { class: 'chip', href: withParams(changes), title: 'Take this filter away', 'aria-label': `Take away the filter ${word}` },
    word,
    ' ×',
  );
}

/** Proposes the workflows that there are. @param {HTMLElement} bar */
export async function fillNames(bar) {
  known ??=
    (await getIfAny('/api/v1/workflows?limit=500').catch(() => null))?.items?.map((/** @type {any} */ item) => item.workflowId) ?? null;
  const place = bar.querySelector('#known-workflows');
  if (!place) return;
  fill(
    place,
    (known ?? []).map((id) => h('option', { value: id })),
  );
}
