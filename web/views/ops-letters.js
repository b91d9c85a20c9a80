// Dead letters: runs that the engine gave up, with why, to requeue or purge.
import { h } from '../lib/dom.js';
import { empty } from '../lib/view.js';
import { number, plural } from '../lib/text.js';
import { button, commandLine, runLink, time } from '../ui/bits.js';
import { longText, valueView } from '../ui/value.js';
import { confirm } from '../ui/confirm.js';
import { nextPage, pageQuery, table } from '../ui/table.js';

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function lettersTab({ get, again, params, signal }) {
  const answer = await get(`/api/v1/dead-letters?${pageQuery(params)}`, signal);
  const requeue = (/** @type {string[]} */ ids) => () =>
    confirm({
      title: 'Requeue',
      words: `${plural(ids.length, 'run')} ${ids.length === 1 ? 'is' : 'are'} executed again from where ${ids.length === 1 ? 'it was' : 'they were'}.`,
      verb: 'Requeue',
      method: 'POST',
      path: '/api/v1/dead-letters',
      body: { executionId: ids },
      cli: `dead-letters requeue ${ids.join(' ')}`,
      done: again,
    });
  const purge = (/** @type {string} */ id) => () =>
    confirm({
      title: 'Purge',
      words: 'The run ends as Failed with DEAD_LETTERED, without another attempt and without compensation.',
      verb: 'Purge',
      danger: true,
      method: 'DELETE',
      path: `/api/v1/dead-letters?executionId=${encodeURIComponent(id)}`,
      cli: `dead-letters purge ${id}`,
      done: again,
    });
  if (!answer.items.length) {
    return empty(
      'No dead letters',
      'A run that cannot be read, or that crashes the process again and again, becomes one. None has.',
      commandLine('windlass dead-letters'),
    );
  }
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'buttons' },
      button(`Requeue all ${answer.items.length} shown`, requeue(answer.items.map((/** @type {any} */ item) => item.executionId))),
    ),
    table(
      ['Run', 'Workflow', 'Reason', 'Deliveries', 'Since', ''],
      answer.items.map((/** @type {any} */ item) => [
        runLink(item.executionId),
        item.workflowId,
        h(
          'div',
          null,
          longText(item.reason, 300),
          item.damage ? h('div', { class: 'bad' }, item.damage) : null,
          item.payload ? h('details', null, h('summary', null, 'Payload'), valueView(item.payload)) : null,
        ),
        number(item.deliveries),
        time(item.at),
        h(
          'div',
          { class: 'buttons' },
          button('Requeue', requeue([item.executionId]), 'small primary'),
          button('Purge', purge(item.executionId), 'small danger'),
        ),
      ]),
    ),
    nextPage(answer),
  );
}
