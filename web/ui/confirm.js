// Asks before something that cannot be undone, with the same as a command and as curl.
import { fill, h } from '../lib/dom.js';
import { api } from '../lib/api.js';
import { failure } from '../lib/view.js';
import { button, cli, commandLine, curl } from './bits.js';
import { openDialog } from './dialog.js';

/**
 * @param {{ title: string, words: string, verb: string, danger?: boolean, method: string, path: string, body?: any, cli: string | (() => string), done: (answer: any) => void, fields?: HTMLElement, read?: () => any }} what
 */
export function confirm(what) {
  const reply = h('div', { 'aria-live': 'polite' });
  const commands = h('div', { class: 'stack' });
  const body = () => (what.read ? what.read() : what.body);
  const draw = () => fill(commands, commandLine(cli(typeof what.cli === 'string' ? what.cli : what.cli()), 'CLI'), commandLine(curl(what.method, what.path, masked(body())), 'curl'));
  const act = button(
    what.verb,
    async () => {
      act.disabled = true;
      try {
        const answer = await api(what.method, what.path, { body: body() });
        dialog.close();
        what.done(answer);
      } catch (error) {
        fill(reply, failure(error));
        act.disabled = false;
      }
    },
    what.danger ? 'danger' : 'primary',
  );
  what.fields?.addEventListener('input', draw);
  const content = h(
    'div',
    { class: 'sheet' },
    h('p', null, what.words),
    what.fields ?? null,
    reply,
    h('details', null, h('summary', null, 'The same as a command'), commands),
    h('div', { class: 'buttons' }, act),
  );
  const dialog = openDialog(what.title, content);
  draw();
}

/** A secret's value is typed once and not shown. @param {any} body */
function masked(body) {
  return body && typeof body === 'object' && 'value' in body ? { ...body, value: '…' } : body;
}

/** @param {string} id @param {string} name @param {Record<string, any>} [props] */
export function input(id, name, props = {}) {
  const field = h('input', { id, type: 'text', spellcheck: 'false', autocomplete: 'off', ...props });
  return { field, element: h('div', { class: 'field' }, h('label', { for: id }, name), field) };
}
