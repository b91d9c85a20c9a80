// Queues with who holds what, the server's limits, workers.
import { h } from '../lib/dom.js';
import { empty } from '../lib/view.js';
import { badge } from '../lib/status.js';
import { ApiError, get } from '../lib/api.js';
import { bytes, duration, number, plural } from '../lib/text.js';
import { commandLine, runLink, time } from '../ui/bits.js';
import { table } from '../ui/table.js';
import { clusterBlock, poolsBlock } from './ops-cluster.js';

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function queueTab({ getIfAny, again, signal }) {
  const [ready, pending, running, limits, cluster, pools] = await Promise.all([
    fetchReady(signal),
    get('/api/v1/executions?status=Pending&limit=500', signal),
    get('/api/v1/executions?status=Running&status=Paused&limit=500', signal),
    get('/api/v1/limits', signal),
    getIfAny('/api/v1/cluster', signal),
    getIfAny('/api/v1/pools', signal),
  ]);
  const many = (/** @type {any} */ list) => `${number(list.items.length)}${list.next ? '+' : ''}`;
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'tiles' },
      tile('Server', ready),
      tile('Queued', many(pending)),
      tile('Under way', many(running)),
      tile('Asleep', number(running.items.filter((/** @type {any} */ run) => run.asleep).length)),
    ),
    keys(pending.items, running.items),
    pools ? poolsBlock(pools, again) : null,
    cluster ? clusterBlock(cluster) : null,
    h(
      'details',
      null,
      h('summary', null, 'Limits of this server'),
      table(
        ['Limit', 'Value'],
        Object.entries(limits).map(([name, value]) => [words(name), h('span', { class: 'mono' }, limitValue(name, value))]),
      ),
    ),
  );
}

/** @param {AbortSignal} signal */
async function fetchReady(signal) {
  try {
    const answer = await get('/health/ready', signal);
    return answer.warnings?.length ? `${answer.status}, ${plural(answer.warnings.length, 'warning')}` : String(answer.status);
  } catch (error) {
    return error instanceof ApiError ? error.code : 'unknown';
  }
}

/** @param {string} name @param {string} value */
function tile(name, value) {
  return h('div', { class: 'tile' }, h('span', { class: 'muted' }, name), h('strong', null, value));
}

/** Concurrency keys: who holds a place, who waits for one. @param {any[]} pending @param {any[]} running */
function keys(pending, running) {
  /** @type {Map<string, { limit: number, held: any[], waiting: any[] }>} */
  const found = new Map();
  for (const run of [...running, ...pending]) {
    if (!run.gate) continue;
    const key = found.get(run.gate) ?? { limit: run.gateLimit, held: [], waiting: [] };
    (run.status === 'Pending' ? key.waiting : key.held).push(run);
    found.set(run.gate, key);
  }
  const waiting = pending.filter((run) => !run.gate);
  return h(
    'div',
    { class: 'stack' },
    h('h2', null, 'Concurrency keys'),
    found.size
      ? table(
          ['Key', 'Limit', 'Held by', 'Waiting'],
          [...found].slice(0, 200).map(([key, item]) => [
            h('code', null, key),
            number(item.limit),
            h(
              'span',
              { class: 'list' },
              item.held.slice(0, 10).map((run) => runLink(run.executionId)),
            ),
            h(
              'span',
              { class: 'list' },
              item.waiting.slice(0, 10).map((run) => runLink(run.executionId)),
              item.waiting.length > 10 ? `and ${item.waiting.length - 10} more` : null,
            ),
          ]),
        )
      : h('p', { class: 'muted' }, 'No run with a concurrency key is queued or under way.'),
    waiting.length
      ? [
          h('h2', null, 'Waiting for room'),
          table(
            ['Run', 'Workflow', 'Priority', 'Since'],
            waiting.slice(0, 50).map((run) => [runLink(run.executionId), run.workflowId, number(run.priority), time(run.createdAt)]),
          ),
        ]
      : null,
  );
}

/** @param {string} name */
function words(name) {
  const text = name
    .replace(/(Bytes|Ms)$/, '')
    .replace(/([A-Z])/g, ' $1')
    .toLowerCase();
  return text[0].toUpperCase() + text.slice(1);
}

/** @param {string} name @param {any} value */
function limitValue(name, value) {
  if (typeof value !== 'number') return JSON.stringify(value);
  if (/Bytes$/.test(name)) return bytes(value);
  return /Ms$/.test(name) ? duration(value) : number(value);
}

/** @param {import('./operations.js').Tools} tools @returns {Promise<Node>} */
export async function workersTab({ signal }) {
  const [workers, actions] = await Promise.all([get('/api/v1/workers', signal), get('/api/v1/actions', signal)]);
  const declared = actions.items.filter((/** @type {any} */ action) => action.declaredByWorkers);
  return h(
    'div',
    { class: 'stack' },
    workers.items.length
      ? table(
          ['Worker', 'State', 'Tasks', 'Actions', 'Labels', 'Since', 'Last poll'],
          workers.items.map((/** @type {any} */ worker) => [
            h('code', null, worker.worker),
            badge(worker.tasks ? 'Running' : 'Waiting', worker.waiting ? 'waits for work' : worker.tasks ? 'works' : 'away'),
            number(worker.tasks),
            worker.actions.join(', '),
            worker.labels.join(', '),
            time(worker.since),
            time(worker.lastPollAt),
          ]),
        )
      : empty(
          'No worker polls',
          'The server executes its own actions; workers in any language take the others.',
          commandLine(
            'curl -X POST localhost:7400/api/v1/workers/poll -H \'Content-Type: application/json\' -d \'{"protocol": 1, "worker": "w1", "actions": [{"actionType": "my.action"}]}\'',
          ),
        ),
    declared.length
      ? [
          h('h2', null, 'Declared actions'),
          table(
            ['Action', 'Description', 'Last seen'],
            declared.map((/** @type {any} */ action) => [h('code', null, action.name), action.description, time(action.lastSeenAt)]),
          ),
        ]
      : null,
  );
}
