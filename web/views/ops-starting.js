// What starts runs by itself: schedules with their next times, and hooks.
import { h } from '../lib/dom.js';
import { empty } from '../lib/view.js';
import { duration, shell } from '../lib/text.js';
import { workflowHref } from '../lib/router.js';
import { api } from '../lib/api.js';
import { button, commandLine, copyButton, runLink, time } from '../ui/bits.js';
import { openDialog } from '../ui/dialog.js';
import { confirm, input } from '../ui/confirm.js';
import { nextPage, pageQuery, table } from '../ui/table.js';

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function schedulesTab({ get, getIfAny, again, params, signal }) {
  const answer = await get(`/api/v1/schedules?${pageQuery(params, 50)}`, signal);
  const details = await Promise.all(
    answer.items
      .slice(0, 10)
      .map((/** @type {any} */ item) => getIfAny(`/api/v1/schedules/${encodeURIComponent(item.id)}?times=true`, signal).catch(() => null)),
  );
  const times = new Map(details.filter(Boolean).map((item) => [item.id, item.times]));
  const act = (/** @type {any} */ item, /** @type {string} */ verb) => async () => {
    await api('POST', `/api/v1/schedules/${encodeURIComponent(item.id)}/${verb}`);
    again();
  };
  const remove = (/** @type {any} */ item) => () =>
    confirm({
      title: `Remove ${item.id}`,
      words: 'It starts no more runs. Runs that it started continue.',
      verb: 'Remove',
      danger: true,
      method: 'DELETE',
      path: `/api/v1/schedules/${encodeURIComponent(item.id)}`,
      cli: `schedules remove ${item.id}`,
      done: again,
    });
  const rows = answer.items.map((/** @type {any} */ item) => [
    h('div', null, h('strong', null, item.id), h('div', null, h('a', { href: workflowHref(item.workflowId) }, item.workflowId))),
    h(
      'div',
      null,
      h('code', null, item.cron ?? `every ${duration(item.everyMs)}`),
      h('div', { class: 'muted' }, item.cron ? item.timezone : ''),
    ),
    item.enabled ? nextTimes(times.get(item.id), item.nextAt) : h('span', { class: 'wait' }, 'paused'),
    h(
      'div',
      null,
      item.lastAt ? time(item.lastAt) : '–',
      ' ',
      item.lastExecutionId ? runLink(item.lastExecutionId) : null,
      item.lastError ? h('div', { class: 'bad' }, item.lastError) : null,
      item.damage ? h('div', { class: 'bad' }, item.damage) : null,
    ),
    h(
      'div',
      { class: 'buttons' },
      item.enabled ? button('Pause', act(item, 'pause'), 'small') : button('Resume', act(item, 'resume'), 'small'),
      button('Remove', remove(item), 'small danger'),
    ),
  ]);
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'buttons' },
      button('Set a schedule', () => setSchedule(again), 'primary'),
    ),
    rows.length
      ? table(['Schedule', 'When', 'Next times', 'Last', ''], rows)
      : empty(
          'No schedules',
          'A schedule starts runs of a workflow at set times, while a server runs.',
          commandLine("windlass schedules set nightly --workflow report --cron '0 2 * * *'"),
        ),
    nextPage(answer),
  );
}

/** @param {string[] | null | undefined} times @param {string | null} next */
function nextTimes(times, next) {
  if (!times?.length) return next ? time(next) : h('span', null, '–');
  return h(
    'details',
    null,
    h('summary', null, time(times[0])),
    h(
      'ol',
      { class: 'times' },
      times.slice(0, 10).map((at) => h('li', null, time(at), ' ', h('span', { class: 'muted mono' }, at))),
    ),
  );
}

/** @param {() => void} again */
function setSchedule(again) {
  const id = input('sch-id', 'Id');
  const workflow = input('sch-workflow', 'Workflow');
  const cron = input('sch-cron', 'Cron, five fields or six with seconds first', { value: '0 2 * * *' });
  const zone = input('sch-zone', 'Time zone', { value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' });
  confirm({
    title: 'Set a schedule',
    words: 'Replaces the one of that id, if there is one.',
    verb: 'Set',
    method: 'POST',
    path: '/api/v1/schedules',
    fields: h('div', { class: 'stack' }, id.element, workflow.element, cron.element, zone.element),
    read: () => ({ id: id.field.value, workflowId: workflow.field.value, cron: cron.field.value, timezone: zone.field.value }),
    cli: `schedules set ID --workflow WORKFLOW --cron ${shell('0 2 * * *')}`,
    done: again,
  });
}

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function hooksTab({ get, again, params, signal }) {
  const answer = await get(`/api/v1/hooks?${pageQuery(params)}`, signal);
  const remove = (/** @type {any} */ item) => () =>
    confirm({
      title: `Remove ${item.id}`,
      words: 'Its address and secret stop working.',
      verb: 'Remove',
      danger: true,
      method: 'DELETE',
      path: `/api/v1/hooks/${encodeURIComponent(item.id)}`,
      cli: `hooks remove ${item.id}`,
      done: again,
    });
  const make = () => {
    const id = input('hook-id', 'Id');
    const workflow = input('hook-workflow', 'Workflow');
    confirm({
      title: 'Set a hook',
      words: 'Makes an address and a secret, which are shown once. Setting the same id again makes new ones.',
      verb: 'Set',
      method: 'POST',
      path: '/api/v1/hooks',
      cli: 'hooks set ID --workflow WORKFLOW',
      fields: h('div', { class: 'stack' }, id.element, workflow.element),
      read: () => ({ id: id.field.value, workflowId: workflow.field.value }),
      done: (made) => {
        again();
        openDialog(
          'The hook, shown once',
          h(
            'div',
            { class: 'sheet' },
            h('p', { class: 'wait' }, 'Copy the secret now: the server stores it encrypted and never shows it again.'),
            secretLine('Address', location.origin + made.path),
            secretLine('Secret', made.secret),
          ),
        );
      },
    });
  };
  return h(
    'div',
    { class: 'stack' },
    h('div', { class: 'buttons' }, button('Set a hook', make, 'primary')),
    answer.items.length
      ? table(
          ['Hook', 'Workflow', 'Made', ''],
          answer.items.map((/** @type {any} */ item) => [
            h('strong', null, item.id),
            h('a', { href: workflowHref(item.workflowId) }, item.workflowId),
            time(item.createdAt),
            button('Remove', remove(item), 'small danger'),
          ]),
        )
      : empty(
          'No hooks',
          'A hook starts runs for programs that have no token, with signed requests.',
          commandLine('windlass hooks set orders --workflow order'),
        ),
    nextPage(answer),
  );
}

/** @param {string} name @param {string} value */
function secretLine(name, value) {
  return h('div', { class: 'command' }, h('span', { class: 'command-label' }, name), h('code', null, value), copyButton(value));
}
