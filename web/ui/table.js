// A table of rows, and a page of a list with a link to the next.
import { h } from '../lib/dom.js';
import { withParams } from '../lib/router.js';

/** @param {string[]} names @param {import('../lib/dom.js').Child[][]} rows */
export function table(names, rows) {
  return h(
    'div',
    { class: 'table-wrap', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    h(
      'table',
      null,
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          names.map((name) => h('th', null, name)),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map((row) =>
          h(
            'tr',
            null,
            row.map((cell) => h('td', null, cell)),
          ),
        ),
      ),
    ),
  );
}

/** @param {any} answer */
export function nextPage(answer) {
  const back = new URLSearchParams(location.search).get('cursor');
  if (!answer.next && !back) return null;
  return h(
    'div',
    { class: 'buttons' },
    back ? h('a', { class: 'button', href: withParams({ cursor: null }) }, 'First page') : null,
    answer.next ? h('a', { class: 'button', href: withParams({ cursor: answer.next }) }, 'Next page') : null,
  );
}

/** The query of a page that the address names. @param {URLSearchParams} params @param {number} [limit] */
export function pageQuery(params, limit = 100) {
  const query = new URLSearchParams({ limit: String(limit) });
  const cursor = params.get('cursor');
  if (cursor) query.set('cursor', cursor);
  return query;
}
