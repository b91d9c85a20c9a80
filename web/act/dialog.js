// A command's dialog: its form, the reason, a dry run where one helps, the same as a command
// line and as curl, and what became of it.
import { fill, h } from '../lib/dom.js';
import { api, freshKey, runPath } from '../lib/api.js';
import { navigate, runHref } from '../lib/router.js';
import { failure } from '../lib/view.js';
import { plural } from '../lib/text.js';
import { openDialog } from '../ui/dialog.js';
import { button, commandLine, curl } from '../ui/bits.js';
import { commandWords } from './commands.js';
import { fieldsOf } from './fields.js';

/** @param {import('./commands.js').Command} command @param {import('../run/model.js').RunModel} model @param {string | null} path @param {any} node */
export async function openCommand(command, model, path, node) {
  const commands = h('div', { class: 'commands' });
  const result = h('div', { 'aria-live': 'polite' });
  const reason = h('input', { type: 'text', id: 'act-reason', placeholder: 'Recorded with the command', autocomplete: 'off' });
  const doIt = button(command.name, () => send(false), command.danger ? 'danger' : 'primary');
  doIt.dataset.act = command.id;
  const tryIt = button('Dry run', () => send(true));
  const forked = command.id === 'fork';
  const changed = () => {
    const { values, problem } = read();
    if (forked) doIt.disabled = true;
    else doIt.disabled = Boolean(problem);
    tryIt.disabled = Boolean(problem);
    fill(result, problem ? h('p', { class: 'bad' }, problem) : null);
    const same = [
      commandLine(commandWords(command, model.id, values), 'CLI'),
      commandLine(curl('POST', `${runPath(model.id)}/${command.id}`, values), 'curl'),
    ];
    fill(commands, problem ? null : same);
  };
  const fields = await fieldsOf(command, model, path, node, () => changed());
  const key = freshKey();
  const form = h(
    'form',
    { class: 'act', novalidate: true },
    h('p', { class: 'muted' }, command.help),
    fields.map((field) => field.element),
    h('div', { class: 'field' }, h('label', { for: 'act-reason' }, 'Reason'), reason),
    result,
    h('details', null, h('summary', null, 'The same as a command'), commands),
    h('div', { class: 'buttons' }, command.preview ? tryIt : null, doIt),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (!doIt.disabled) void send(false);
    else if (!tryIt.disabled) void send(true);
  });
  // Enter in a field gives the command, unless it ends something.
  form.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || command.danger || !(event.target instanceof HTMLInputElement)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  reason.addEventListener('input', changed);
  const dialog = openDialog(`${command.name}${path ? ` ${path}` : ''}`, form, undefined, forked ? 'wide' : '');
  changed();

  /** @returns {{ values: any, problem: string | null }} */
  function read() {
    /** @type {any} */
    const values = {};
    let problem = null;
    for (const field of fields) {
      try {
        for (const [key, value] of Object.entries(field.read()))
          values[key] = Array.isArray(value) && Array.isArray(values[key]) ? [...values[key], ...value] : value;
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
      }
    }
    if (command.on !== 'run' && path !== null && (command.id === 'skip' || command.id === 'set-result')) values.node = path;
    if (reason.value.trim()) values.reason = reason.value.trim();
    return { values, problem };
  }

  /** @param {boolean} dryRun */
  async function send(dryRun) {
    const { values, problem } = read();
    if (problem) return;
    doIt.disabled = tryIt.disabled = true;
    try {
      const answer = await api('POST', `${runPath(model.id)}/${command.id}`, {
        body: dryRun ? { ...values, dryRun } : values,
        key: dryRun ? undefined : key,
      });
      if (dryRun) fill(result, preview(answer, command, values));
      else {
        dialog.close();
        if (answer.executionId && answer.executionId !== model.id) navigate(runHref(answer.executionId));
        else await model.reload();
        return;
      }
      doIt.disabled = false;
    } catch (error) {
      fill(result, failure(error));
      doIt.disabled = forked;
    }
    tryIt.disabled = false;
    result.scrollIntoView({ block: 'nearest' });
  }
}

/** What would happen. @param {any} answer @param {import('./commands.js').Command} command @param {any} values */
function preview(answer, command, values) {
  const again = answer.again ?? [];
  const reused = answer.reused ?? [];
  const undone = answer.undone ?? [];
  const box = h('div', { class: 'preview', data: { preview: command.id } });
  if (again.length) box.append(h('strong', null, `Runs again: ${plural(again.length, 'node')}`), names(again));
  if (reused.length) box.append(h('strong', null, `Reused: ${plural(reused.length, 'result')}`), names(reused));
  if (command.id === 'compensate' && values.retry) box.append(h('strong', null, 'Compensated again'), names(values.retry));
  if (command.id === 'compensate' && values.skip) box.append(h('strong', null, 'Left out'), names(values.skip));
  if (undone.length)
    box.append(
      h('strong', null, `Undone: ${plural(undone.length, 'node')}`),
      names(undone.map((/** @type {any} */ item) => (typeof item === 'string' ? item : (item.node ?? JSON.stringify(item))))),
    );
  if (answer.compensated?.length)
    box.append(
      h('strong', null, 'Was undone already'),
      names(answer.compensated.map((/** @type {any} */ item) => item.node ?? JSON.stringify(item))),
    );
  if (!box.childElementCount)
    box.append(
      h(
        'span',
        null,
        command.id === 'compensate'
          ? 'There is nothing to undo.'
          : `The server would accept it. The run is ${answer.status ?? 'unchanged'}.`,
      ),
    );
  return box;
}

/** @param {string[]} all */
function names(all) {
  return h(
    'div',
    { class: 'list' },
    all.slice(0, 60).map((name) => h('code', { class: 'chip' }, name)),
    all.length > 60 ? h('span', { class: 'muted' }, `and ${all.length - 60} more`) : null,
  );
}
