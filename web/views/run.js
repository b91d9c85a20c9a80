// One run: head, graph, timeline, events and the chosen node, with one selection for all.
import { fill, h, setTitle } from '../lib/dom.js';
import { View, failure, loading } from '../lib/view.js';
import { ApiError, getIfAny, workflowPath } from '../lib/api.js';
import { setParams, withParams } from '../lib/router.js';
import { commandLine } from '../ui/bits.js';
import { basePath } from '../graph/body.js';
import { RunModel } from '../run/model.js';
import { RunHead } from '../run/head.js';
import { GraphElement } from '../graph/view.js';
import { openBoxes } from '../graph/scene.js';
import { Timeline } from '../run/timeline.js';
import { EventLog } from '../run/events.js';
import { NodePanel } from '../run/node-panel.js';
import { Finder } from '../run/finder.js';
import { Travel } from '../run/travel.js';
import { momentOf } from '../run/moment.js';

const PANES = [
  ['graph', 'Graph'],
  ['node', 'Node'],
  ['timeline', 'Timeline'],
  ['events', 'Events'],
];

class Run extends View {
  constructor() {
    super();
    /** @type {RunModel | null} */
    this.model = null;
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'run' && now.id === this.id0;
  }

  /** @param {import('../lib/router.js').Route} now */
  start(now) {
    this.id0 = now.id;
    this.classList.add('run-view');
    setTitle(`${now.id.slice(0, 13)}`);
    loading(this);
    void this.open(now);
  }

  /** @param {import('../lib/router.js').Route} now */
  async open(now) {
    const model = new RunModel(now.id, this.abort.signal);
    this.model = model;
    try {
      model.open = openBoxes(now.params.getAll('open'));
      model.at = momentOf(now.params);
      const { log, travel } = this.build(model);
      model.addEventListener('run', () => this.ready(), { once: true });
      // Graph and events come first: what follows can take long for a long run.
      model.addEventListener('layout', () => log.attach(model), { once: true });
      model.addEventListener('layout', () => setTimeout(() => this.ready(), 250), { once: true });
      await model.load();
      setTitle(`${model.exec.status} · ${model.exec.workflowId}`);
      model.addEventListener('run', () => setTitle(`${model.exec.status} · ${model.exec.workflowId}`));
      this.arrived(model, momentOf(now.params));
      this.choose(now.params);
      travel.attach(model, () => Math.max(log.total, model.position));
      // Medians of many runs take the server a while: they come last.
      setTimeout(() => void this.loadMedians(model), 300);
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.ready();
      fill(
        this,
        h(
          'div',
          { class: 'page' },
          failure(error, () => this.start({ ...now })),
          error instanceof ApiError && error.status === 404
            ? h(
                'div',
                { class: 'empty' },
                h('p', { class: 'muted' }, 'The run may have been removed by retention, or belongs to another tenant.'),
                commandLine('windlass runs --since 7d'),
                h('a', { href: '/' }, 'All runs'),
              )
            : null,
        ),
      );
    }
  }

  /** @param {RunModel} model */
  build(model) {
    this.head = new RunHead();
    this.graph = new GraphElement();
    this.timeline = new Timeline();
    this.log = new EventLog();
    this.panel = new NodePanel();
    this.travel = new Travel();
    this.finder = new Finder();
    this.tabs = h('div', { class: 'tabs panes' });
    fill(
      this,
      this.head,
      this.tabs,
      h(
        'div',
        { class: 'run-grid' },
        h(
          'section',
          { class: 'pane pane-graph', 'aria-label': 'Graph' },
          h('div', { class: 'pane-head' }, h('h2', null, 'Graph'), h('span', { class: 'spacer' }), edgeLegend(), this.finder),
          this.graph,
        ),
        h('section', { class: 'pane pane-node', 'aria-label': 'Node', tabindex: '-1' }, this.panel),
        h('section', { class: 'pane pane-timeline', 'aria-label': 'Timeline' }, this.timeline),
        h('section', { class: 'pane pane-events', 'aria-label': 'Events' }, this.log),
      ),
      this.travel,
    );
    this.head.attach(model);
    this.timeline.attach(model);
    this.panel.attach(model);
    this.finder.attach(model, this.graph);
    const remark = () => {
      const marks = model.marks();
      if (marks && this.graph?.scene === model.scene) this.graph?.setMarks(marks);
    };
    model.addEventListener('nodes', remark);
    model.addEventListener('layout', () => {
      if (!model.scene || !this.graph) return;
      this.graph.setScene(model.scene, model.marks() ?? undefined);
      this.choose(new URLSearchParams(location.search));
    });
    const pick = (/** @type {any} */ event) => setParams({ node: event.detail, single: null });
    for (const part of [this.graph, this.timeline, this.log]) part.addEventListener('pick', pick);
    this.graph.addEventListener('toggle', (/** @type {any} */ event) => {
      void model.toggle(event.detail);
      setParams({ open: [...model.open] }, { replace: true });
    });
    this.graph.addEventListener('open', () => {
      setParams({ pane: 'node' }, { replace: true });
      this.panel?.querySelector('a, button')?.dispatchEvent(new Event('focus'));
      /** @type {HTMLElement | null | undefined} */ (this.panel?.closest('section'))?.focus();
    });
    this.log.addEventListener('travel', (/** @type {any} */ event) => setParams({ at: event.detail }));
    return { log: this.log, travel: this.travel };
  }

  /** @param {import('../lib/router.js').Route} now */
  routed(now) {
    const model = this.model;
    if (!model?.exec) return;
    const at = momentOf(now.params);
    if (at !== model.at)
      void model
        .travel(at)
        .then(() => this.arrived(model, at))
        .catch((error) =>
          fill(
            this.travel ?? this,
            failure(error, () => setParams({ at: null })),
          ),
        );
    else this.arrived(model, at);
    this.choose(now.params);
  }

  /** The address says what is shown, also where it named no event of the run. @param {RunModel} model @param {number | null} asked */
  arrived(model, asked) {
    const params = new URLSearchParams(location.search);
    if (momentOf(params) !== asked || (params.get('at') ?? '') === String(model.at ?? '')) return;
    if (this.travel && asked !== null) this.travel.missing = asked;
    setParams({ at: model.at }, { replace: true });
    this.travel?.update();
  }

  /** @param {URLSearchParams} params */
  choose(params) {
    const node = params.get('node');
    const pane = params.get('pane') ?? (node ? 'node' : 'graph');
    this.dataset.pane = PANES.some(([id]) => id === pane) ? pane : 'graph';
    if (this.tabs)
      fill(
        this.tabs,
        PANES.map(([id, name]) =>
          h('a', { href: withParams({ pane: id }), 'aria-current': id === this.dataset.pane ? 'true' : null }, name),
        ),
      );
    const { scene } = this.model ?? {};
    const box = node === null ? -1 : (scene?.holder(basePath(node)) ?? -1);
    this.graph?.select(scene && box >= 0 ? scene.id(box) : null, true);
    this.finder?.show(params.get('find') ?? '');
    this.timeline?.select(node);
    this.log?.select(node);
    this.panel?.select(node, params.has('single'));
  }

  /** @param {RunModel} model */
  async loadMedians(model) {
    if (!model.exec.version || !this.isConnected) return;
    const answer = await getIfAny(`${workflowPath(model.exec.workflowId)}/statistics?from=30d`, this.abort.signal).catch(() => null);
    const { nodeStatistics } = await import('./workflow-marks.js');
    if (!answer || !this.timeline) return;
    for (const item of nodeStatistics(answer)) if (item.p50) this.timeline.medians.set(item.node, item.p50);
    this.timeline.draw();
  }

  refresh() {
    void this.model?.reload();
  }

  stop() {
    this.model?.stop();
  }
}

function edgeLegend() {
  return h(
    'span',
    { class: 'edge-legend muted' },
    h('i', { class: 'edge taken' }),
    'taken ',
    h('i', { class: 'edge not' }),
    'not taken ',
    h('i', { class: 'edge lost' }),
    'lost ',
    h('i', { class: 'edge critical' }),
    'longest path',
  );
}
customElements.define('w-run', Run);
