// What a new version would do to live runs, as a table.
import { h } from '../lib/dom.js';
import { badge } from '../lib/status.js';
import { plural } from '../lib/text.js';
import { runLink } from '../ui/bits.js';

/** @param {any[]} runs */
export function planTable(runs) {
  return h(
    'div',
    { class: 'stack' },
    h('strong', null, plural(runs.length, 'live run')),
    h(
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
            ['Run', 'Status', 'Version', 'Effect', 'Nodes'].map((name) => h('th', null, name)),
          ),
        ),
        h(
          'tbody',
          null,
          runs.slice(0, 200).map((run) =>
            h(
              'tr',
              null,
              h('td', null, runLink(run.executionId)),
              h('td', null, badge(run.status)),
              h('td', null, `v${run.version}`),
              h(
                'td',
                null,
                h('strong', null, run.effect),
                ' ',
                run.detail,
                (run.warnings ?? []).map((/** @type {any} */ w) =>
                  h('div', { class: 'wait' }, typeof w === 'string' ? w : JSON.stringify(w)),
                ),
              ),
              h(
                'td',
                null,
                (run.added ?? []).map((/** @type {string} */ n) => h('span', { class: 'good' }, `+${n} `)),
                (run.removed ?? []).map((/** @type {string} */ n) => h('span', { class: 'bad' }, `−${n} `)),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
