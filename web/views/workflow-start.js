// A form that starts a run, made from the workflow's triggerSchema.
import { fill, h } from '../lib/dom.js';
import { api, freshKey, workflowPath } from '../lib/api.js';
import { navigate, runHref } from '../lib/router.js';
import { failure } from '../lib/view.js';
import { shell } from '../lib/text.js';
import { cli, commandLine, curl } from '../ui/bits.js';
import { jsonField, schemaForm } from '../ui/schema-form.js';

/** @param {string} id @param {any} definition @param {number} version @param {number} newest */
export function startForm(id, definition, version, newest) {
  const result = h('div', { 'aria-live': 'polite' });
  const commands = h('div', { class: 'stack' });
  const go = h('button', { type: 'submit', class: 'button primary' }, 'Start');
  const request = h('input', { type: 'text', id: 'start-request', placeholder: 'Made by the server if it is empty', spellcheck: 'false' });
  const labels = h('input', { type: 'text', id: 'start-labels', placeholder: 'key=value key=value', spellcheck: 'false' });
  const priority = h('input', { type: 'number', id: 'start-priority', min: '0', max: '9', placeholder: '5' });
  const trigger = definition.triggerSchema
    ? schemaForm(definition.triggerSchema, undefined, () => changed(), 'Trigger')
    : jsonField('Trigger', {}, () => changed());
  const key = freshKey();
  const form = h(
    'form',
    { class: 'panel stack start-form', novalidate: true },
    trigger.element,
    h(
      'details',
      null,
      h('summary', null, 'Request id, labels, priority'),
      h(
        'div',
        { class: 'stack' },
        field('start-request', 'Request id', request),
        field('start-labels', 'Labels', labels),
        field('start-priority', 'Priority, 0 to 9', priority),
      ),
    ),
    version !== newest ? h('p', { class: 'wait' }, `Starts version ${version}; the newest is ${newest}.`) : null,
    result,
    h('div', { class: 'buttons' }, go),
    h('details', null, h('summary', null, 'The same as a command'), commands),
  );

  /** @returns {any} */
  function body() {
    const words = labels.value.split(/\s+/).filter(Boolean);
    const wrong = words.find((word) => word.indexOf('=') < 1);
    if (wrong) throw new Error(`Labels: ${wrong} is not key=value.`);
    const pairs = words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]);
    const given = Object.fromEntries(pairs);
    if (Object.keys(given).length < pairs.length) throw new Error('Labels: a key is given twice.');
    return {
      trigger: trigger.read(),
      ...(request.value.trim() ? { requestId: request.value.trim() } : {}),
      ...(Object.keys(given).length ? { labels: given } : {}),
      ...(priority.value ? { priority: Number(priority.value) } : {}),
      ...(version !== newest ? { version } : {}),
    };
  }
  function changed() {
    try {
      const now = body();
      go.disabled = false;
      fill(result);
      fill(
        commands,
        commandLine(cli(startWords(id, now)), 'CLI'),
        commandLine(curl('POST', `${workflowPath(id)}/execute`, now), 'curl'),
      );
    } catch (error) {
      go.disabled = true;
      fill(result, h('p', { class: 'bad' }, error instanceof Error ? error.message : String(error)));
    }
  }
  for (const input of [request, labels, priority]) input.addEventListener('input', changed);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      const started = await api('POST', `${workflowPath(id)}/execute`, { body: body(), key: request.value.trim() ? undefined : key });
      navigate(runHref(started.executionId));
    } catch (error) {
      fill(result, failure(error));
      go.disabled = false;
    }
  });
  changed();
  return form;
}

/** The command that starts the same run as this request. @param {string} id @param {any} body */
function startWords(id, { version, trigger, requestId, labels, priority }) {
  // A value that begins like an option is joined to its name.
  const option = (/** @type {string} */ name, /** @type {any} */ value) =>
    value === undefined ? '' : ` --${name}${String(value).startsWith('-') ? '=' : ' '}${shell(String(value))}`;
  const chosen = Object.entries(labels ?? {}).map(([key, value]) => option('label', `${key}=${value}`));
  // A trigger that is left out is an empty object, here and in the request.
  const given = trigger === undefined ? undefined : JSON.stringify(trigger);
  const words = [option('version', version), option('trigger', given), option('request-id', requestId), ...chosen, option('priority', priority)];
  return `start ${shell(id)}${words.join('')}`;
}

/** @param {string} id @param {string} name @param {HTMLElement} input */
function field(id, name, input) {
  return h('div', { class: 'field' }, h('label', { for: id }, name), input);
}
