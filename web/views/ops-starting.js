// What starts runs by itself: schedules with their next times, and hooks.
import { fill, h } from '../lib/dom.js';
import { empty, failure } from '../lib/view.js';
import { duration, shell } from '../lib/text.js';
import { workflowHref } from '../lib/router.js';
import { button, commandLine, copyButton, runLink, time } from '../ui/bits.js';
import { openDialog } from '../ui/dialog.js';
import { confirm, input } from '../ui/confirm.js';
import { nextPage, pageQuery, table } from '../ui/table.js';

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function schedulesTab({ get, again, params, signal }) {
  const answer = await get(`/api/v1/schedules?${pageQuery(params, 50)}`, signal);
  const act = (/** @type {any} */ item, /** @type {'Pause' | 'Resume'} */ verb) => () =>
    confirm({
      title: `${verb} ${item.id}`,
      words: verb === 'Pause' ? 'It starts no runs until it is resumed.' : 'It starts runs again, from its next time on.',
      verb,
      method: 'POST',
      path: `/api/v1/schedules/${encodeURIComponent(item.id)}/${verb.toLowerCase()}`,
      cli: `schedules ${verb.toLowerCase()} ${shell(item.id)}`,
      done: again,
    });
  const remove = (/** @type {any} */ item) => () =>
    confirm({
      title: `Remove ${item.id}`,
      words: 'It starts no more runs. Runs that it started continue.',
      verb: 'Remove',
      danger: true,
      method: 'DELETE',
      path: `/api/v1/schedules/${encodeURIComponent(item.id)}`,
      cli: `schedules remove ${shell(item.id)}`,
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
    item.enabled ? nextTimes(item, get, signal) : h('span', { class: 'wait' }, 'paused'),
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
      item.enabled ? button('Pause', act(item, 'Pause'), 'small') : button('Resume', act(item, 'Resume'), 'small'),
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

/**
 * The next time; those after it are read when they are asked for.
 * @param {any} item @param {import('./operations.js').Tools['get']} get @param {AbortSignal} signal
 */
function nextTimes(item, get, signal) {
  if (!item.nextAt) return h('span', null, '–');
  const list = h('ol', { class: 'times' });
  const read = async () => {
    if (!row.open || list.childElementCount) return;
    try {
      const { times } = await get(`/api/v1/schedules/${encodeURIComponent(item.id)}?times=true`, signal);
      const shown = (times ?? []).slice(0, 10);
      fill(list, shown.map((/** @type {string} */ at) => h('li', null, time(at), ' ', h('span', { class: 'muted mono' }, at))));
    } catch (error) {
      if (!signal.aborted) fill(list, failure(error));
    }
  };
  const row = h('details', { on: { toggle: read } }, h('summary', null, time(item.nextAt)), list);
  return row;
}

/** @param {() => void} again */
function setSchedule(again) {
  const id = input('sch-id', 'Id');
  const workflow = input('sch-workflow', 'Workflow');
  const cron = input('sch-cron', 'Cron, five fields or six with seconds first', { value: '0 2 * * *' });
  const zone = input('sch-zone', 'Time zone', { value: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' });
  const every = input('sch-every', 'Or the milliseconds between runs, in place of the cron', { inputmode: 'numeric' });
  const when = () =>
    every.field.value.trim() ? { everyMs: Number(every.field.value) } : { cron: cron.field.value, timezone: zone.field.value };
  confirm({
    title: 'Set a schedule',
    words: 'Replaces the one of that id, if there is one.',
    verb: 'Set',
    method: 'POST',
    path: '/api/v1/schedules',
    fields: h('div', { class: 'stack' }, id.element, workflow.element, cron.element, zone.element, every.element),
    read: () => ({ id: id.field.value, workflowId: workflow.field.value, ...when() }),
    cli: () =>
      `schedules set ${shell(id.field.value || 'ID')} --workflow ${shell(workflow.field.value || 'WORKFLOW')} ${
        every.field.value.trim()
          ? `--every-ms ${shell(every.field.value.trim())}`
          : `--cron ${shell(cron.field.value)} --timezone ${shell(zone.field.value)}`
      }`,
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
      cli: `hooks remove ${shell(item.id)}`,
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
      cli: () => `hooks set ${shell(id.field.value || 'ID')} --workflow ${shell(workflow.field.value || 'WORKFLOW')}`,
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
