// A guided first minute, beside the runs of `windlass dev --demo`: four things to look at.
import { h } from '../lib/dom.js';
import { runHref, workflowHref } from '../lib/router.js';

const KEY = 'windlass.guide';

/** @param {any[]} items @returns {HTMLElement | null} */
export function guide(items) {
  const demo = new Map(items.filter((run) => run.labels?.demo && run.requestId === 'demo').map((run) => [run.labels.demo, run]));
  if (demo.size < 4 || closed()) return null;
  const step = (/** @type {string} */ name, /** @type {string} */ words, /** @type {Record<string, string>} */ params = {}) => {
    const run = demo.get(name);
    return run ? h('li', null, h('a', { href: runHref(run.executionId, params) }, words)) : null;
  };
  const card = h(
    'aside',
    { class: 'panel guide', 'aria-label': 'Your first minute' },
    h(
      'div',
      { class: 'dialog-head' },
      h('h2', { class: 'big' }, 'Your first minute'),
      h(
        'button',
        {
          type: 'button',
          class: 'button small',
          'aria-label': 'Close the guide',
          on: {
            click: () => {
              close();
              card.remove();
            },
          },
        },
        '✕',
      ),
    ),
    h(
      'ol',
      null,
      step('failed', 'Read why a day of orders failed: the cause is inside a child run, inside a loop'),
      step('waiting', 'Approve a release that waits, with a form made from its schema', { node: 'approve' }),
      step('running', 'Watch an import go round its loop, live'),
      step('done', 'Move the time travel slider over a run that is done'),
      h(
        'li',
        null,
        h('a', { href: `${workflowHref('demo-greeting')}?tab=start` }, 'Start a run yourself'),
        ', or ',
        h('a', { href: '/editor' }, 'write a workflow'),
      ),
    ),
  );
  return card;
}

function closed() {
  try {
    return localStorage.getItem(KEY) === 'closed';
  } catch {
    return false;
  }
}

function close() {
  try {
    localStorage.setItem(KEY, 'closed');
  } catch {
    // Without storage the guide comes back with the next page.
  }
}
