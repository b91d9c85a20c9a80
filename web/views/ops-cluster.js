// Pools with who holds and who waits for their slots; processes with their roles and partitions,
// and the work that is queued for workers.
import { h } from '../lib/dom.js';
import { can } from '../lib/session.js';
import { duration, number, plural, shell } from '../lib/text.js';
import { button, commandLine, runLink, time } from '../ui/bits.js';
import { confirm, input } from '../ui/confirm.js';
import { table } from '../ui/table.js';

/** How many holders and waiters of a pool are named. */
const NAMED = 8;

/** @param {import('../types/api.js').PoolPage} pools @param {() => void} again */
export function poolsBlock(pools, again) {
  const manages = can('admin');
  const set = manages ? button('Set a pool', () => setPool('', 1, again), 'small') : null;
  const rows = pools.items.map((pool) => [
    h('span', null, h('code', { class: 'strong' }, pool.name), pool.tenantId ? h('div', { class: 'muted' }, pool.tenantId) : null),
    gauge(pool.used, pool.slots),
    attempts(pool.holders, pool.used),
    attempts(pool.waiters, pool.waiting),
    manages
      ? h(
          'div',
          { class: 'buttons' },
          button('Resize', () => setPool(pool.name, pool.slots, again), 'small'),
          button('Remove', () => removePool(pool.name, again), 'small danger'),
        )
      : '',
  ]);
  return h(
    'section',
    { class: 'stack' },
    h('div', { class: 'block-head' }, h('h2', null, 'Pools'), set),
    rows.length
      ? table(['Pool', 'Slots in use', 'Held by', 'Waiting', ''], rows)
      : [
          h('p', { class: 'muted' }, 'No pools. A pool limits how many attempts execute at once, across runs and workflows.'),
          commandLine('windlass pools set database 4'),
        ],
  );
}

/** @param {number} used @param {number} slots */
function gauge(used, slots) {
  const full = used >= slots;
  return h(
    'div',
    { class: 'gauge' },
    h('span', { class: full ? 'wait strong' : '' }, `${number(used)} of ${number(slots)}`),
    h('div', { class: 'progress' }, h('span', { class: full ? 'full' : '', style: { width: `${Math.min(100, (used / Math.max(slots, 1)) * 100)}%` } })),
  );
}

/** @param {import('../types/api.js').PoolAttempt[]} list @param {number} all */
function attempts(list, all) {
  if (!list.length) return h('span', { class: 'muted' }, all ? number(all) : '–');
  const named = list.slice(0, NAMED).map((item) =>
    h(
      'li',
      null,
      runLink(item.executionId, { node: item.node }),
      ' ',
      h('code', null, item.node),
      h('span', { class: 'muted' }, ' ', item.slots > 1 ? `${number(item.slots)} slots, ` : '', 'since '),
      time(item.since),
    ),
  );
  return h('ul', { class: 'members' }, named, list.length > NAMED ? h('li', { class: 'muted' }, `and ${number(list.length - NAMED)} more`) : null);
}

/** @param {string} known @param {number} slots @param {() => void} again */
function setPool(known, slots, again) {
  const name = input('pool-name', 'Name', { value: known, ...(known ? { readonly: true } : {}) });
  const size = input('pool-slots', 'Slots', { type: 'number', min: '1', value: String(slots) });
  confirm({
    title: known ? `Resize ${known}` : 'Set a pool',
    words: 'At most so many attempts of nodes that name this pool execute at once. Attempts that execute already go on.',
    verb: known ? 'Resize' : 'Set',
    method: 'PUT',
    path: '/api/v1/pools',
    read: () => ({ name: name.field.value.trim(), slots: Number(size.field.value) }),
    cli: () => `pools set ${shell(name.field.value.trim() || 'NAME')} ${Number(size.field.value)}`,
    fields: h('div', { class: 'stack' }, name.element, size.element),
    done: again,
  });
}

/** @param {string} name @param {() => void} again */
function removePool(name, again) {
  confirm({
    title: `Remove ${name}`,
    words: 'A pool that a workflow names cannot be removed; the server says which.',
    verb: 'Remove',
    danger: true,
    method: 'DELETE',
    path: `/api/v1/pools/${encodeURIComponent(name)}`,
    cli: `pools remove ${shell(name)}`,
    done: again,
  });
}

/** @param {any} cluster */
export function clusterBlock(cluster) {
  /** @type {Map<string, number[]>} */
  const owned = new Map();
  const free = [];
  for (const { partition, owner } of cluster.partitions ?? []) {
    if (owner === null) free.push(partition);
    else owned.set(owner, [...(owned.get(owner) ?? []), partition]);
  }
  const sessions = (cluster.sessions ?? []).map((/** @type {any} */ session) => [
    h('span', null, h('code', { class: 'strong' }, session.name), session.self ? h('span', { class: 'muted' }, ' this server') : null),
    session.roles.join(', '),
    session.labels.join(', ') || '–',
    number(session.slots),
    partitionWords(owned.get(session.id) ?? []),
    time(session.since),
    session.expires ? time(session.expires) : '–',
    h('code', null, session.version),
  ]);
  const queue = (cluster.queue ?? []).map((/** @type {any} */ kind) => [
    h('code', null, kind.actionType),
    Array.isArray(kind.requires) ? kind.requires.join(', ') || '–' : '–',
    number(kind.waiting),
    number(kind.leased),
  ]);
  return h(
    'section',
    { class: 'stack' },
    h('h2', null, 'Processes'),
    table(['Process', 'Roles', 'Labels', 'Slots', 'Partitions', 'Since', 'Session expires', 'Version'], sessions),
    free.length ? h('p', { class: 'bad' }, `${plural(free.length, 'partition')} without an owner: ${free.slice(0, 20).join(', ')}`) : null,
    cluster.projectorLagMs > 1000 ? h('p', { class: 'wait' }, `Lists are ${duration(cluster.projectorLagMs)} behind the log.`) : null,
    queue.length ? [h('h2', null, 'Queued for workers'), table(['Action', 'Needs labels', 'Waiting', 'Taken'], queue)] : null,
  );
}

/** Consecutive numbers as ranges. @param {number[]} list */
function partitionWords(list) {
  /** @type {[number, number][]} */
  const ranges = [];
  for (const n of [...list].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && last[1] === n - 1) last[1] = n;
    else ranges.push([n, n]);
  }
  return ranges.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)).join(', ') || '–';
}
