// Jobs, secrets' names and the audit.
import { h } from '../lib/dom.js';
import { can } from '../lib/session.js';
import { empty } from '../lib/view.js';
import { runHref } from '../lib/router.js';
import { shell } from '../lib/text.js';
import { button, commandLine, time } from '../ui/bits.js';
import { valueView } from '../ui/value.js';
import { confirm, input } from '../ui/confirm.js';
import { nextPage, pageQuery, table } from '../ui/table.js';
import { jobState } from './runs-bulk.js';

/** Jobs are found by the audit; without it, by the address. @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function jobsTab({ get, getIfAny, params, signal }) {
  const audit = can('admin') ? await getIfAny('/api/v1/audit?limit=500', signal) : null;
  const ids = (audit?.items ?? [])
    .filter((/** @type {any} */ item) => item.what === 'bulk' || item.what === 'rebuild')
    .map((/** @type {any} */ item) => item.target);
  if (params.get('job')) ids.unshift(params.get('job'));
  const jobs = (
    await Promise.all([...new Set(ids)].slice(0, 20).map((id) => getIfAny(`/api/v1/bulk/${encodeURIComponent(String(id))}`, signal)))
  ).filter(Boolean);
  if (!jobs.length)
    return empty(
      'No jobs',
      'A command for many runs at once becomes a job, which survives a restart.',
      commandLine('windlass reattempt --filter status=Failed --dry-run'),
      h('div', { class: 'buttons' }, h('a', { class: 'button', href: '/?status=Failed' }, 'Failed runs')),
    );
  return h(
    'div',
    { class: 'stack' },
    jobs.map((job) =>
      h(
        'div',
        { class: 'panel stack' },
        h(
          'div',
          { class: 'page-head' },
          h('strong', null, job.action),
          h('span', { class: 'mono muted' }, job.id),
          h('span', { class: 'muted' }, job.status),
          time(job.createdAt),
        ),
        jobState(job),
      ),
    ),
  );
}

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function secretsTab({ get, again, params, signal }) {
  const answer = await get(`/api/v1/secrets?${pageQuery(params)}`, signal);
  const set = () => {
    const name = input('secret-name', 'Name');
    const value = input('secret-value', 'Value', { type: 'password' });
    confirm({
      title: 'Set a secret',
      words: 'Templates use it as secrets.NAME. Its value never comes out again.',
      verb: 'Set',
      method: 'POST',
      path: '/api/v1/secrets',
      cli: () => `secrets set ${shell(name.field.value || 'NAME')}`,
      fields: h('div', { class: 'stack' }, name.element, value.element),
      read: () => ({ name: name.field.value, value: value.field.value }),
      done: again,
    });
  };
  const remove = (/** @type {string} */ name) => () =>
    confirm({
      title: `Remove ${name}`,
      words: 'Runs that use it fail from now on.',
      verb: 'Remove',
      danger: true,
      method: 'DELETE',
      path: `/api/v1/secrets/${encodeURIComponent(name)}`,
      cli: `secrets remove ${shell(name)}`,
      done: again,
    });
  return h(
    'div',
    { class: 'stack' },
    h('div', { class: 'buttons' }, button('Set a secret', set, 'primary')),
    answer.items.length
      ? table(
          ['Name', 'Tenant', 'Changed', ''],
          answer.items.map((/** @type {any} */ item) => [
            h('code', null, item.name),
            item.tenantId ?? '',
            time(item.updatedAt),
            button('Remove', remove(item.name), 'small danger'),
          ]),
        )
      : empty('No secrets', 'Only names are shown here; values never come out.', commandLine('windlass secrets set API_TOKEN')),
    nextPage(answer),
  );
}

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function auditTab({ get, params, signal }) {
  const answer = await get(`/api/v1/audit?${pageQuery(params)}`, signal);
  if (!answer.items.length) return empty('Nothing was changed yet', 'Every change is listed here: who, what, on what, from where.');
  return h(
    'div',
    { class: 'stack' },
    table(
      ['When', 'Who', 'What', 'On', 'Detail'],
      answer.items.map((/** @type {any} */ item) => [
        time(item.at),
        h('div', null, item.by, h('div', { class: 'muted mono' }, item.from)),
        item.what,
        /^[0-9a-f]{8}-/.test(item.target)
          ? h('a', { class: 'mono', href: runHref(item.target) }, item.target.slice(0, 13))
          : h('span', { class: 'mono' }, item.target),
        item.damage ? h('span', { class: 'bad' }, item.damage) : valueView(item.detail, { open: 0 }),
      ]),
    ),
    nextPage(answer),
  );
}
