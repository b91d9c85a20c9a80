// Operations: queues and limits, workers, schedules, hooks, dead letters, jobs, secrets' names,
// audit. What the token does not allow is not offered.
import { fill, h, keepFocus, setTitle } from '../lib/dom.js';
import { get, getIfAny, pollMs } from '../lib/api.js';
import { View, failure, loading } from '../lib/view.js';
import { can } from '../lib/session.js';
import { withParams } from '../lib/router.js';
import { auditTab, jobsTab, secretsTab } from './ops-admin.js';
import { hooksTab, schedulesTab } from './ops-starting.js';
import { lettersTab } from './ops-letters.js';
import { queueTab, workersTab } from './ops-engine.js';

/** @typedef {{ id: string, name: string, scope: string, draw: (tools: Tools) => Promise<Node> }} Tab */
/** @typedef {{ get: typeof get, getIfAny: typeof getIfAny, again: () => void, params: URLSearchParams, signal: AbortSignal }} Tools */

/** @type {Tab[]} */
const TABS = [
  { id: 'queues', name: 'Queues', scope: 'workflows:read', draw: queueTab },
  { id: 'workers', name: 'Workers', scope: 'workflows:work', draw: workersTab },
  { id: 'schedules', name: 'Schedules', scope: 'workflows:manage', draw: schedulesTab },
  { id: 'hooks', name: 'Hooks', scope: 'workflows:manage', draw: hooksTab },
  { id: 'dead-letters', name: 'Dead letters', scope: 'admin', draw: lettersTab },
  { id: 'jobs', name: 'Jobs', scope: 'workflows:read', draw: jobsTab },
  { id: 'secrets', name: 'Secrets', scope: 'admin', draw: secretsTab },
  { id: 'audit', name: 'Audit', scope: 'admin', draw: auditTab },
];

class Operations extends View {
  constructor() {
    super();
    this.tabs = h('nav', { class: 'tabs', 'aria-label': 'Operations' });
    this.content = h('div', { class: 'stack' });
    this.asked = 0;
    this.drawn = '';
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'operations';
  }

  /** @param {import('../lib/router.js').Route} now */
  start(now) {
    setTitle('Operations');
    fill(
      this,
      h(
        'div',
        { class: 'page' },
        h(
          'div',
          { class: 'page-head' },
          h('h1', null, 'Operations'),
          h('span', { class: 'spacer' }),
          h('a', { class: 'muted', href: '/api/docs', target: '_blank', rel: 'noopener' }, 'API'),
          h('a', { class: 'muted', href: '/metrics', target: '_blank', rel: 'noopener' }, 'Metrics'),
        ),
        this.tabs,
        this.content,
      ),
    );
    this.routed(now);
    this.repeat(
      () => pollMs() * 2,
      () => {
        if (!this.content.contains(document.activeElement) && !document.querySelector('dialog')) void this.draw();
      },
    );
  }

  /** @param {import('../lib/router.js').Route} now */
  routed(now) {
    const allowed = TABS.filter((tab) => can(tab.scope));
    const chosen = allowed.find((tab) => tab.id === now.params.get('tab')) ?? allowed[0];
    const links = allowed.map((tab) =>
      h('a', { href: withParams({ tab: tab.id, cursor: null }), 'aria-current': tab === chosen ? 'page' : null }, tab.name),
    );
    keepFocus(this.tabs, () => fill(this.tabs, links));
    this.tabs.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    if (this.drawn !== chosen?.id) loading(this.content);
    this.drawn = chosen?.id ?? '';
    void this.draw();
  }

  refresh() {
    void this.draw();
  }

  async draw() {
    const mine = ++this.asked;
    const params = new URLSearchParams(location.search);
    const tab = TABS.find((one) => one.id === this.drawn);
    if (!tab) return fill(this.content, h('p', { class: 'muted' }, 'Your token allows none of these.'));
    try {
      const content = await tab.draw({ get, getIfAny, again: () => void this.draw(), params, signal: this.abort.signal });
      if (mine === this.asked) fill(this.content, content);
      this.ready();
    } catch (error) {
      if (mine === this.asked && !this.abort.signal.aborted)
        fill(
          this.content,
          failure(error, () => this.draw()),
        );
    }
  }
}
customElements.define('w-operations', Operations);
