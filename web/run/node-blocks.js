// Parts of a node's panel: members of a loop, its error, attempts and ancestry.
import { fill, h } from '../lib/dom.js';
import { badge, icon } from '../lib/status.js';
import { duration, number } from '../lib/text.js';
import { runHref, withParams } from '../lib/router.js';
import { copyButton, time } from '../ui/bits.js';
import { longText, valueBlock } from '../ui/value.js';
import { basePath } from '../graph/body.js';

/** @type {Intl.Collator | undefined} */
let order;

/**
 * Failed ones first and all of them; then the others, bounded. `kept` remembers how many are shown
 * when the list of a loop that goes on is made again.
 * @param {[string, any][]} members @param {string} [group] @param {{ shown: number }} [kept]
 */
export function memberList(members, group = '', kept = { shown: 0 }) {
  const rank = /** @type {Record<string, number>} */ ({ Failed: 0, Blocked: 2, Running: 1, Waiting: 1 });
  order ??= new Intl.Collator('en', { numeric: true });
  const { compare } = order;
  const sorted = [...members].sort(([a, x], [b, y]) => (rank[x.status] ?? 3) - (rank[y.status] ?? 3) || compare(a, b));
  const failed = sorted.filter(([, node]) => node.status === 'Failed').length;
  const list = h('ul', { class: 'members' });
  let shown = 0;
  const more = (/** @type {number} */ n) => {
    for (const [path, node] of sorted.slice(shown, shown + n)) {
      list.append(
        h(
          'li',
          null,
          icon(node.status),
          ' ',
          h('a', { class: 'mono', href: withParams({ node: path, single: path === group }) }, path),
          h('span', { class: 'muted' }, ` ${node.error?.code ?? node.status}`),
        ),
      );
    }
    shown += n;
    kept.shown = shown;
    button.hidden = shown >= sorted.length;
    button.textContent = `${number(Math.max(0, sorted.length - shown))} more`;
  };
  const button = h('button', { type: 'button', class: 'link', on: { click: () => more(200) } });
  more(Math.max(kept.shown, Math.min(500, Math.max(12, failed))));
  return h('div', null, list, button);
}

/** @param {string} name @param {any} value */
export function fact(name, value) {
  return value === null || value === undefined || value === '' ? null : [h('dt', null, name), h('dd', null, value)];
}

/** @param {any} error @param {string} id */
export function errorBlock(error, id) {
  const causes = error.details?.causes ?? [];
  return h(
    'div',
    { class: 'error-block' },
    h('strong', null, error.code),
    ' ',
    longText(error.message),
    causes.map((/** @type {any} */ cause) =>
      h(
        'p',
        null,
        '→ ',
        h(
          'a',
          { href: runHref(cause.executionId, { node: cause.node }) },
          cause.executionId === id ? cause.node : `${cause.node} in ${cause.executionId.slice(0, 13)}`,
        ),
        ' ',
        h('code', null, cause.code),
      ),
    ),
    error.retriable === false ? h('p', { class: 'muted' }, 'Not retriable') : null,
    error.details && Object.keys(error.details).length && !causes.length ? valueBlock('Details', error.details) : null,
  );
}

/** How many attempts are shown at first, and how many more on demand. */
const ATTEMPTS = 50;
const EARLIER = 200;

/** The last attempts, with the earlier ones on demand. `kept` remembers how many are shown. @param {any[]} actions @param {string} [title] @param {{ shown: number }} [kept] */
export function attempts(actions, title = 'Attempts', kept = { shown: 0 }) {
  if (!actions.length) return null;
  const list = h('ol', { class: 'attempts' });
  const words = h('span');
  const button = h('button', { type: 'button', class: 'link', on: { click: () => show(kept.shown + EARLIER) } }, 'Earlier attempts');
  const note = h('p', { class: 'muted' }, words, ' ', button);
  const show = (/** @type {number} */ count) => {
    kept.shown = count;
    fill(list, actions.slice(-count).map(attempt));
    fill(words, `The last ${number(count)} of ${number(actions.length)}.`);
    note.hidden = count >= actions.length;
  };
  show(Math.max(kept.shown, ATTEMPTS));
  return h('section', { class: 'sect' }, h('h3', null, title), note, list);
}

/** @param {any} action */
function attempt(action) {
  const took = action.endedAt ? ` · ${duration(Date.parse(action.endedAt) - Date.parse(action.startedAt))}` : '';
  return h(
    'li',
    { value: action.attempt },
    h(
      'div',
      null,
      badge(action.status),
      ' ',
      h('span', { class: 'muted' }, time(action.startedAt), took, action.worker ? ` · ${action.worker}` : ''),
    ),
    action.error ? h('div', { class: 'bad' }, h('code', null, action.error.code), ' ', longText(action.error.message, 300)) : null,
  );
}

/** @param {import('./model.js').RunModel} model @param {string} path @param {any} node */
export function ancestry(model, path, node) {
  const scene = model.scene;
  const i = scene?.byId.get(basePath(path));
  if (!scene || i === undefined) return null;
  const prefix = path.includes('/') ? path.slice(0, path.lastIndexOf('/') + 1) : '';
  const basePrefix = basePath(prefix);
  const instance = (/** @type {string} */ id) => (prefix && id.startsWith(basePrefix) ? prefix + id.slice(basePrefix.length) : id);
  const before = scene.into[i].map((e) => instance(scene.id(scene.packed.edges.from[e])));
  const after = scene.out[i].map((e) => instance(scene.id(scene.packed.edges.to[e])));
  if (!before.length && !after.length && !node.ancestryHash) return null;
  const links = (/** @type {string[]} */ ids) =>
    ids
      .slice(0, 30)
      .map((id) => [
        icon(model.nodes.get(id)?.status ?? 'Pending'),
        ' ',
        h('a', { class: 'mono', href: withParams({ node: id }) }, id.split('/').at(-1) ?? id),
        ' ',
      ]);
  return h(
    'section',
    { class: 'sect' },
    h('h3', null, 'Ancestry'),
    h(
      'dl',
      { class: 'facts' },
      fact('Before', before.length ? links(before) : null),
      fact('After', after.length ? links(after) : null),
      fact(
        'Hash',
        node.ancestryHash
          ? h(
              'span',
              null,
              h('code', { title: node.ancestryHash }, node.ancestryHash.slice(0, 16)),
              copyButton(node.ancestryHash, 'Copy the hash'),
            )
          : null,
      ),
    ),
  );
}

/** What became of undoing the node. @param {any} compensation */
export function compensationBlock(compensation) {
  const { status, attempts, error } = compensation;
  return h(
    'div',
    { class: status === 'Failed' ? 'error-block' : 'why' },
    h('span', null, 'Compensation ', badge(status), attempts > 1 ? ` after ${attempts} attempts` : ''),
    error ? h('div', null, h('strong', null, error.code), ' ', longText(error.message)) : null,
  );
}
