// The catalogue: every workflow, its newest version, and how its last runs went.
import { fill, h, setTitle } from '../lib/dom.js';
import { get, pollMs } from '../lib/api.js';
import { View, empty, failure, loading } from '../lib/view.js';
import { can } from '../lib/session.js';
import { navigate, runHref, setParams, withParams, workflowHref } from '../lib/router.js';
import { icon } from '../lib/status.js';
import { button, commandLine, time } from '../ui/bits.js';
import { number } from '../lib/text.js';

class Workflows extends View {
  constructor() {
    super();
    this.list = h('div');
    /** @type {any[]} */
    this.items = [];
    /** @type {Map<string, any[]>} */
    this.recent = new Map();
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'workflows';
  }

  /** @param {import('../lib/router.js').Route} now */
  start(now) {
    setTitle('Workflows');
    const find = h('input', {
      type: 'search',
      placeholder: 'Find a workflow',
      'aria-label': 'Find a workflow',
      value: now.params.get('q') ?? '',
    });
    find.addEventListener('input', () => setParams({ q: find.value }, { replace: true }));
    fill(
      this,
      h(
        'div',
        { class: 'page' },
        h(
          'div',
          { class: 'page-head' },
          h('h1', null, 'Workflows'),
          h('span', { class: 'spacer' }),
          find,
          can('workflows:manage') ? h('a', { class: 'button primary', href: '/editor' }, 'New workflow') : null,
        ),
        this.list,
      ),
    );
    loading(this.list);
    void this.load();
    this.repeat(
      () => pollMs() * 3,
      () => this.load(),
    );
  }

  routed() {
    this.draw();
  }

  refresh() {
    void this.load();
  }

  async load() {
    try {
      /** @type {any[]} */
      const items = [];
      let cursor = '';
      do {
        const answer = await get(`/api/v1/workflows?limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`, this.abort.signal);
        items.push(...answer.items);
        cursor = answer.next ?? '';
      } while (cursor && items.length < 5000);
      const runs = await get('/api/v1/executions?limit=500', this.abort.signal).catch(() => ({ items: [] }));
      this.recent = new Map();
      for (const run of runs.items) {
        const list = this.recent.get(run.workflowId) ?? [];
        if (list.length < 16) list.push(run);
        this.recent.set(run.workflowId, list);
      }
      this.items = items;
      this.draw();
      this.ready();
    } catch (error) {
      if (!this.abort.signal.aborted && !this.items.length)
        fill(
          this.list,
          failure(error, () => this.load()),
        );
    }
  }

  draw() {
    const needle = (new URLSearchParams(location.search).get('q') ?? '').toLowerCase();
    const shown = this.items.filter((item) => `${item.workflowId} ${item.displayName ?? ''}`.toLowerCase().includes(needle));
    if (!shown.length) {
      fill(
        this.list,
        this.items.length
          ? empty('No workflow matches', 'Look for another name.', h('a', { href: withParams({ q: null }) }, 'Show all'))
          : empty(
              'No workflows yet',
              'Publish a definition; every publication with new content is a new version.',
              commandLine('windlass publish examples/diamond.json'),
              h('div', { class: 'buttons' }, h('a', { class: 'button primary', href: '/editor' }, 'Write one here')),
            ),
      );
      return;
    }
    fill(
      this.list,
      h(
        'div',
        { class: 'table-wrap catalogue', tabindex: '0', role: 'region', 'aria-label': 'Table' },
        h(
          'table',
          null,
          h(
            'thead',
            null,
            h(
              'tr',
              null,
              ['Workflow', 'Version', 'Last runs', 'Changed', ''].map((name) => h('th', null, name)),
            ),
          ),
          h(
            'tbody',
            null,
            shown.slice(0, 500).map((item) => this.row(item)),
          ),
        ),
        shown.length > 500 ? h('p', { class: 'loading muted' }, `${number(shown.length - 500)} more; look for a name`) : null,
      ),
    );
  }

  /** @param {any} item */
  row(item) {
    const runs = this.recent.get(item.workflowId) ?? [];
    return h(
      'tr',
      null,
      h(
        'td',
        null,
        h('a', { href: workflowHref(item.workflowId), class: 'strong' }, item.displayName ?? item.workflowId),
        item.displayName ? h('div', { class: 'mono muted' }, item.workflowId) : null,
        item.enabled ? null : h('div', { class: 'wait' }, 'disabled'),
        item.damage ? h('div', { class: 'bad' }, item.damage) : null,
        item.tenantId ? h('div', { class: 'muted' }, item.tenantId) : null,
      ),
      h('td', null, `v${item.version}`),
      h(
        'td',
        null,
        h(
          'span',
          { class: 'spark' },
          runs
            .slice()
            .reverse()
            .map((run) =>
              h(
                'a',
                {
                  href: runHref(run.executionId),
                  title: `${run.status} ${run.createdAt}`,
                  'aria-label': `${run.status}, ${run.createdAt}`,
                },
                icon(run.status),
              ),
            ),
          runs.length ? null : h('span', { class: 'muted' }, 'none lately'),
        ),
      ),
      h('td', { class: 'muted' }, time(item.updatedAt)),
      h(
        'td',
        null,
        can('workflows:execute') && item.enabled
          ? button('Start', () => navigate(`${workflowHref(item.workflowId)}?tab=start`), 'small')
          : null,
      ),
    );
  }
}
customElements.define('w-workflows', Workflows);
