// One command for all runs that match the filters: a dry run first, then progress. The job is in
// the address, so that a reload finds it again.
import { fill, h } from '../lib/dom.js';
import { api, get } from '../lib/api.js';
import { getToken } from '../lib/session.js';
import { setParams } from '../lib/router.js';
import { failure } from '../lib/view.js';
import { openDialog } from '../ui/dialog.js';
import { button, cli, commandLine, curl, runLink } from '../ui/bits.js';
import { jsonField } from '../ui/schema-form.js';
import { number, plural, shell } from '../lib/text.js';

const ACTIONS = [
  ['reattempt', 'Reattempt', 'Tries failed or cancelled nodes again.'],
  ['cancel', 'Cancel', 'Ends the runs; running work is told to stop.'],
  ['pause', 'Pause', 'Starts nothing more until the runs are resumed.'],
  ['resume', 'Resume', 'Carries paused runs on.'],
  ['compensate', 'Compensate', 'Undoes what succeeded in runs that have ended.'],
  ['signal', 'Signal', 'Gives the runs a signal.'],
  ['skip', 'Skip', 'Counts a node as succeeded, with null as its output.'],
  ['set-result', 'Set result', "Sets a node's output by hand."],
];

/** What a command is told of each run: the key of its name in the request, and what its value is. */
const TOLD = /** @type {Record<string, { key: string, name: string, value?: string } | undefined>} */ ({
  signal: { key: 'name', name: "The signal's name", value: 'Payload' },
  skip: { key: 'node', name: 'Node' },
  'set-result': { key: 'node', name: 'Node', value: 'Output' },
});

/** @param {{ filter: Record<string, any>, words: string, search: URLSearchParams }} query @param {string} [job] */
export function openBulk(query, job) {
  const result = h('div', { 'aria-live': 'polite' });
  const action = h(
    'select',
    { id: 'bulk-action' },
    ACTIONS.map(([value, name]) => h('option', { value }, name)),
  );
  const help = h('p', { class: 'help muted' });
  const name = h('input', { type: 'text', id: 'bulk-name', spellcheck: 'false' });
  const nameLabel = h('label', { for: 'bulk-name' });
  const nameField = h('div', { class: 'field' }, nameLabel, name);
  const valueField = h('div');
  /** @type {ReturnType<typeof jsonField> | null} */
  let value = null;
  const undo = h('input', { type: 'checkbox', id: 'bulk-undo' });
  const undoField = h('label', null, undo, 'Compensate: undo what succeeded');
  const reason = h('input', { type: 'text', id: 'bulk-reason', placeholder: 'Recorded with each run' });
  const commands = h('div', { class: 'commands' });
  const act = button('Do it', () => send(false), 'primary');
  const check = button('Dry run', () => send(true));
  act.disabled = true;
  const body = (/** @type {boolean} */ dryRun) => ({
    action: action.value,
    filter: query.filter,
    dryRun,
    ...(reason.value ? { reason: reason.value } : {}),
    ...(action.value === 'cancel' && undo.checked ? { compensate: true } : {}),
    ...told(),
  });
  /** @returns {Record<string, any>} */
  const told = () => {
    const wanted = TOLD[action.value];
    if (!wanted) return {};
    return { [wanted.key]: name.value, ...(value ? { value: value.read() } : {}) };
  };
  const words = () => {
    const given = told();
    const named = name.value && !nameField.hidden ? ` ${shell(name.value)}` : '';
    const carried = named && value ? ` ${shell(JSON.stringify(given.value ?? null))}` : '';
    const undone = action.value === 'cancel' && undo.checked ? ' --compensate' : '';
    return `${action.value}${query.words}${named}${carried}${undone}${reason.value ? ` --reason ${shell(reason.value)}` : ''}`;
  };
  const draw = () => {
    act.disabled = true;
    fill(result);
    try {
      fill(commands, commandLine(cli(words()), 'CLI'), commandLine(curl('POST', '/api/v1/bulk', body(false)), 'curl'));
    } catch (error) {
      fill(commands, failure(error));
    }
  };
  const choose = () => {
    const wanted = TOLD[action.value];
    help.textContent = ACTIONS.find(([id]) => id === action.value)?.[2] ?? '';
    nameField.hidden = !wanted;
    nameLabel.textContent = wanted?.name ?? '';
    undoField.hidden = action.value !== 'cancel';
    value = wanted?.value ? jsonField(wanted.value, null, draw) : null;
    fill(valueField, value?.element ?? null);
    draw();
  };
  action.addEventListener('change', choose);
  name.addEventListener('input', draw);
  reason.addEventListener('input', draw);
  undo.addEventListener('change', draw);
  const content = h(
    'div',
    { class: 'sheet' },
    h(
      'p',
      { class: 'muted' },
      Object.keys(query.filter).length
        ? ['Runs that match: ', h('code', null, query.words.replaceAll(' --filter ', ' ').trim())]
        : 'There are no filters: this means every run.',
    ),
    h('div', { class: 'field' }, h('label', { for: 'bulk-action' }, 'Command'), action, help),
    nameField,
    valueField,
    undoField,
    h('div', { class: 'field' }, h('label', { for: 'bulk-reason' }, 'Reason'), reason),
    result,
    h('details', null, h('summary', null, 'The same as a command'), commands),
    h('div', { class: 'buttons' }, check, act),
  );
  let closed = false;
  openDialog('Act on all that match', content, () => {
    closed = true;
    setParams({ job: null }, { replace: true });
  });
  choose();
  if (job) void follow(job);

  /** @param {boolean} dryRun */
  async function send(dryRun) {
    check.disabled = act.disabled = true;
    try {
      const state = await api('POST', '/api/v1/bulk', { body: body(dryRun) });
      if (!dryRun) setParams({ job: state.id }, { replace: true });
      await follow(state.id);
      if (dryRun) act.disabled = false;
    } catch (error) {
      fill(result, failure(error));
    }
    check.disabled = false;
    result.scrollIntoView({ block: 'nearest' });
  }

  /** @param {string} id */
  async function follow(id) {
    for (;;) {
      const state = await get(`/api/v1/bulk/${encodeURIComponent(id)}`);
      fill(result, jobState(state));
      if (state.status !== 'running' || closed) {
        if (state.dryRun) act.textContent = `${action.selectedOptions[0]?.textContent} ${plural(state.done, 'run')}`;
        return;
      }
      await new Promise((done) => setTimeout(done, getToken() ? 2000 : 400));
    }
  }
}

/** @param {any} state */
export function jobState(state) {
  const share = state.seen ? (state.done + state.failed) / state.seen : state.status === 'done' ? 1 : 0;
  const words = state.dryRun
    ? `Dry run: ${plural(state.done, 'run')} would take it, ${number(state.failed)} would refuse, ${number(state.seen)} match.`
    : `${number(state.done)} done, ${number(state.failed)} refused, of ${number(state.seen)} that match${state.status === 'running' ? ' so far' : ''}.`;
  return h(
    'div',
    { class: 'preview', data: { job: state.id, status: state.status } },
    h('strong', null, words),
    h('div', { class: 'progress' }, h('span', { style: { width: `${share * 100}%` } })),
    (state.failures ?? [])
      .slice(0, 20)
      .map((/** @type {any} */ f) => h('p', null, runLink(f.executionId), ' ', h('code', { class: 'bad' }, f.code), ' ', f.message)),
  );
}
