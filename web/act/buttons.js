// The buttons of what can be done with a run or a node, as far as the token allows it.
import { h } from '../lib/dom.js';
import { can } from '../lib/session.js';
import { button } from '../ui/bits.js';
import { COMMANDS } from './commands.js';

/** @param {import('../run/model.js').RunModel} model @param {string | null} path @param {any} [node] */
export function actionButtons(model, path, node) {
  if (!can('workflows:execute')) return null;
  const about = node ? { ...node, inBody: path?.includes('/') } : null;
  const fitting = COMMANDS.filter(
    (command) => (path === null ? command.on !== 'node' : command.on !== 'run') && command.fits(model.exec, about),
  );
  if (!fitting.length) return null;
  return h(
    'div',
    { class: 'buttons actions' },
    fitting.map((command, i) => {
      const primary =
        i === 0 &&
        (command.id === 'reattempt' || command.id === 'signal' || command.id === 'resume') &&
        (path !== null || command.id !== 'signal');
      return button(
        command.id === 'fork' && path !== null ? 'Fork from here' : command.name,
        () => void import('./dialog.js').then(({ openCommand }) => openCommand(command, model, path, node)),
        `${primary ? 'primary' : ''} ${command.danger ? 'danger' : ''} ${path === null ? '' : 'small'}`,
      );
    }),
  );
}
