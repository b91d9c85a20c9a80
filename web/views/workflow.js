// One workflow: its graph with statistics, versions and their difference, its runs, and a form to
// start it.
import { fill, h, keepFocus, setTitle } from '../lib/dom.js';
import { get, getIfAny, workflowPath } from '../lib/api.js';
import { View, failure, loading } from '../lib/view.js';
import { can } from '../lib/session.js';
import { setParams, withParams } from '../lib/router.js';
import { button, copyButton } from '../ui/bits.js';
import { showWhole } from '../ui/value.js';
import { plural } from '../lib/text.js';
import { GraphElement } from '../graph/view.js';
import { Scene, openBoxes } from '../graph/scene.js';
import { layoutDraft } from '../graph/draft.js';
import { pair, statisticsMarks, statisticsTable } from './workflow-marks.js';
import { isEnabled, stateDialog } from './workflow-state.js';
import { drawVersions, followGraph, runsHref } from './workflow-versions.js';
import { startForm } from './workflow-start.js';

const SPANS = [
  ['1h', 'Last hour'],
  ['1d', 'Last day'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

class Workflow extends View {
  constructor() {
    super();
    /** @type {any} */
    this.definition = null;
    /** @type {any[]} */
    this.versions = [];
    this.asked = 0;
    this.shown = '';
    /** What the address says apart from `node` and `open`, which the graph that is shown follows by itself. */
    this.drawn = '';
    /** @type {((params: URLSearchParams) => Promise<void> | void) | null} */
    this.follow = null;
    this.enabled = true;
    /** By version, what became of its runs. @type {Map<number, any>} */
    this.counted = new Map();
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'workflow' && now.id === this.id0;
  }

  /** @param {import('../lib/router.js').Route} now */
  start(now) {
    this.id0 = now.id;
    loading(this);
    this.routed(now);
  }

  /** @param {import('../lib/router.js').Route} now */
  async routed(now) {
    const rest = new URLSearchParams(now.params);
    for (const name of ['node', 'open']) rest.delete(name);
    if (this.follow && this.drawn === String(rest)) return this.follow(now.params);
    const mine = ++this.asked;
    const version = now.params.get('version');
    const key = `${now.id} ${version}`;
    try {
      if (key !== this.shown) {
        const [definition, versions, enabled] = await Promise.all([
          get(`${workflowPath(now.id)}${version ? `?version=${encodeURIComponent(version)}` : ''}`, this.abort.signal),
          get(`${workflowPath(now.id)}/versions`, this.abort.signal),
          isEnabled(now.id, this.abort.signal),
        ]);
        if (mine !== this.asked) return;
        this.enabled = enabled;
        this.definition = definition;
        this.versions = versions.items;
        this.shown = key;
      }
      this.follow = null;
      this.drawn = String(rest);
      keepFocus(this, () => this.draw(now));
      this.ready();
    } catch (error) {
      if (!this.abort.signal.aborted)
        fill(
          this,
          h(
            'div',
            { class: 'page' },
            failure(error, () => this.routed(now)),
            h('a', { href: '/workflows' }, 'All workflows'),
          ),
        );
    }
  }

  refresh() {
    this.shown = '';
    this.drawn = '';
    this.follow = null;
    this.counted.clear();
    void this.routed({ name: 'workflow', id: this.id0 ?? '', params: new URLSearchParams(location.search) });
  }

  /** @param {import('../lib/router.js').Route} now */
  draw(now) {
    const starts = can('workflows:execute') && this.enabled;
    const wanted = now.params.get('tab') ?? 'graph';
    const tab = wanted === 'start' && !starts ? 'graph' : wanted;
    const newest = this.versions[0]?.version ?? 1;
    const version = Number(now.params.get('version') ?? newest);
    setTitle(`${this.definition.displayName ?? now.id}`);
    const pick = h(
      'select',
      { 'aria-label': 'Version' },
      this.versions.map((item) => h('option', { value: String(item.version) }, `Version ${item.version}`)),
    );
    pick.value = String(version);
    pick.addEventListener('change', () => setParams({ version: pick.value === String(newest) ? null : pick.value }));
    const content = h('div');
    // `from` is a time in one tab and a version in another.
    const range = (/** @type {string} */ id) => ((id === 'versions') === (tab === 'versions') ? {} : { from: null, to: null });
    const tabs = [
      ['graph', 'Graph'],
      ['versions', 'Versions'],
      ['statistics', 'Statistics'],
      ...(starts ? [['start', 'Start']] : []),
    ];
    fill(
      this,
      h(
        'div',
        { class: 'page workflow-page' },
        h('nav', { class: 'crumbs', 'aria-label': 'Breadcrumbs' }, h('a', { href: '/workflows' }, 'Workflows')),
        h(
          'div',
          { class: 'page-head' },
          h('h1', null, this.definition.displayName ?? now.id),
          this.definition.displayName ? h('span', { class: 'mono muted' }, now.id) : null,
          copyButton(now.id, 'Copy the id'),
          pick,
          this.enabled ? null : h('span', { class: 'pill wait' }, 'disabled: new runs are refused'),
          h('span', { class: 'spacer' }),
          now.params.get('version')
            ? h('a', { class: 'button', href: runsHref(now.id, version) }, `Runs of version ${version}`)
            : h('a', { class: 'button', href: `/?workflow=${encodeURIComponent(now.id)}` }, 'Runs'),
          button('Definition', () => showWhole(`${now.id} version ${version}`, JSON.stringify(this.definition, null, 2))),
          can('workflows:manage')
            ? h('a', { class: 'button', href: `/editor?workflow=${encodeURIComponent(now.id)}&version=${version}` }, 'Edit')
            : null,
          can('workflows:manage') ? button(this.enabled ? 'Disable' : 'Enable', () => this.changeState(now.id), this.enabled ? 'danger' : '') : null,
          starts && tab !== 'start' ? button('Start', () => setParams({ tab: 'start' }), 'primary') : null,
        ),
        this.definition.description ? h('p', { class: 'muted' }, this.definition.description) : null,
        h(
          'nav',
          { class: 'tabs', 'aria-label': 'Parts' },
          tabs.map(([id, name]) =>
            h('a', { href: withParams({ tab: id === 'graph' ? null : id, ...range(id) }), 'aria-current': id === tab ? 'page' : null }, name),
          ),
        ),
        content,
      ),
    );
    if (tab === 'start') fill(content, startForm(now.id, this.definition, version, newest));
    else if (tab === 'versions') {
      const known = { versions: this.versions, counted: this.counted, signal: this.abort.signal };
      void drawVersions(content, now, known, (follow) => (this.follow = follow));
    }
    else void this.drawGraph(content, now, version, tab === 'statistics');
  }

  /** Asks once more: it may have been changed since the view was drawn. @param {string} id */
  async changeState(id) {
    const enabled = await isEnabled(id, this.abort.signal).catch(() => this.enabled);
    if (this.isConnected) stateDialog(id, enabled, () => this.refresh());
  }

  /** @param {string} id @param {number} version @param {Set<string>} open @param {any} definition */
  async scene(id, version, open, definition) {
    const query = new URLSearchParams({ version: String(version) });
    for (const path of open) query.append('open', path);
    const packed = await getIfAny(`${workflowPath(id)}/layout?${query}`, this.abort.signal);
    return new Scene(packed?.nodes ? packed : layoutDraft(definition, open));
  }

  /** @param {HTMLElement} place @param {import('../lib/router.js').Route} now @param {number} version @param {boolean} table */
  async drawGraph(place, now, version, table) {
    let open = openBoxes(now.params.getAll('open'));
    const span = SPANS.find(([value]) => value === now.params.get('from'))?.[0] ?? '7d';
    const since = h(
      'select',
      { 'aria-label': 'Time' },
      SPANS.map(([value, name]) => h('option', { value }, name)),
    );
    since.value = span;
    since.addEventListener('change', () => setParams({ from: since.value }));
    const graph = new GraphElement();
    const note = h('p', { class: 'muted' });
    const rows = h('div');
    fill(
      place,
      h('div', { class: 'stack' }, h('div', { class: 'buttons' }, since, note), table ? rows : h('div', { class: 'graph-box' }, graph)),
    );
    let scene = await this.scene(now.id, version, open, this.definition);
    /** @type {any} */
    let stats = null;
    if (!table && graph.isConnected) {
      graph.setScene(scene);
      graph.select(now.params.get('node'), true);
      this.follow = async (params) => {
        const wanted = openBoxes(params.getAll('open'));
        if (String([...wanted]) !== String([...open])) {
          open = wanted;
          const next = await this.scene(now.id, version, wanted, this.definition).catch(() => null);
          if (!next || open !== wanted) return;
          graph.setScene((scene = next), stats ? statisticsMarks(next, stats) : undefined);
        }
        graph.select(params.get('node'), true);
      };
      followGraph(graph);
    }
    const from = new Date(Date.now() - ({ '1h': 36e5, '1d': 864e5, '7d': 6048e5, '30d': 2592e6 }[span] ?? 6048e5)).toISOString();
    stats = await getIfAny(
      `${workflowPath(now.id)}/statistics?from=${encodeURIComponent(from)}&version=${version}`,
      this.abort.signal,
    ).catch(() => null);
    if (!stats) fill(note, 'This server has no statistics.');
    else {
      if (!table) graph.setMarks(statisticsMarks(scene, stats));
      const { examined, failed, complete, p50Ms, p95Ms } = stats.runs;
      fill(
        note,
        `${plural(examined, 'ended run')} of version ${version}${complete ? '' : ' (the newest)'}, ${failed} failed, p50 / p95 of a run ${pair(p50Ms, p95Ms)}${table ? '' : '; in the graph, of each node, with its failure rate'}`,
      );
      if (table) fill(rows, statisticsTable(stats));
    }
  }
}

customElements.define('w-workflow', Workflow);
