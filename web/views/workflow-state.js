// Whether new runs of a workflow are allowed, and the dialog that allows or refuses them.
import { fill, h } from '../lib/dom.js';
import { api, get, workflowPath } from '../lib/api.js';
import { failure } from '../lib/view.js';
import { shell } from '../lib/text.js';
import { button, cli, commandLine, curl } from '../ui/bits.js';
import { openDialog } from '../ui/dialog.js';

/** Of several tenants' workflows with this id, the one that commands of this caller mean. @param {string} id @param {AbortSignal} signal @returns {Promise<boolean>} */
export async function isEnabled(id, signal) {
  const { items } = await get(`/api/v1/workflows?workflow=${encodeURIComponent(id)}`, signal);
  return (items.find((/** @type {any} */ item) => !item.tenantId) ?? items[0])?.enabled ?? true;
}

/** @param {string} id @param {boolean} enabled what it is now @param {() => void} changed */
export function stateDialog(id, enabled, changed) {
  const reply = h('div');
  const disable = commandsOf(`workflows disable ${shell(id)}`, 'DELETE', workflowPath(id));
  const enable = commandsOf(`workflows enable ${shell(id)}`, 'POST', `${workflowPath(id)}/enable`);
  const act = async (/** @type {string} */ method, /** @type {string} */ tail) => {
    try {
      await api(method, workflowPath(id) + tail);
      dialog.close();
      changed();
    } catch (error) {
      fill(reply, failure(error));
    }
  };
  const content = h(
    'div',
    { class: 'sheet' },
    h(
      'p',
      null,
      enabled
        ? 'No new runs start until it is enabled again, here or by a command; a new version does not enable it. Runs under way continue.'
        : 'It is disabled: new runs are refused. Enable it to let them start again.',
    ),
    reply,
    h(
      'details',
      null,
      h('summary', null, 'The same as a command'),
      h('div', { class: 'stack' }, enabled ? [...disable, h('p', { class: 'muted' }, 'To enable it again:'), ...enable] : enable),
    ),
    h('div', { class: 'buttons' }, enabled ? button('Disable', () => act('DELETE', ''), 'danger') : button('Enable', () => act('POST', '/enable'), 'primary')),
  );
  const dialog = openDialog(`${enabled ? 'Disable' : 'Enable'} ${id}`, content);
}

/** @param {string} words @param {string} method @param {string} path */
function commandsOf(words, method, path) {
  return [commandLine(cli(words), 'CLI'), commandLine(curl(method, path), 'curl')];
}
