// The timeline: one bar per node, queueing and running in two shades, attempts with a tick at the
// start of each, waits hatched, the median of recent runs as a mark. Rows are virtual.
import { eachFrame, fill, h, throttle } from '../lib/dom.js';
import { duration, number } from '../lib/text.js';
import { icon, tone } from '../lib/status.js';
import { basePath } from '../graph/body.js';
import { clockOf } from './moment.js';
import { AttemptTimes, partsOf } from './attempts.js';
import { focusIn, moveByKeys, restore, setStop } from './roving.js';

const ROW = 24;

/** @typedef {{ path: string, depth: number, node: import('./model.js').NodeState, from: number, start: number, end: number }} Bar */

export class Timeline extends HTMLElement {
  constructor() {
    super();
    this.className = 'timeline';
    /** @type {import('./model.js').RunModel | null} */
    this.model = null;
    /** @type {Bar[]} */
    this.bars = [];
    /** @type {string | null} */
    this.selected = null;
    /** By path without iterations, the median. @type {Map<string, number>} */
    this.medians = new Map();
    this.span = { from: 0, to: 1 };
    this.space = h('div', { class: 'tl-space' });
    this.scroller = h('div', { class: 'tl-scroll', role: 'list', 'aria-label': 'Nodes by time' }, this.space);
    this.axis = h('div', { class: 'tl-axis', 'aria-hidden': 'true' });
    this.count = h('span', { class: 'muted' });
    this.draw = eachFrame(() => this.render());
    moveByKeys(
      this.scroller,
      () => this.bars.length,
      (place) => {
        this.reveal(place);
        this.render();
      },
    );
    this.scroller.addEventListener('scroll', () => this.draw(), { passive: true });
  }

  connectedCallback() {
    fill(
      this,
      h('div', { class: 'pane-head' }, h('h2', null, 'Timeline'), this.count, h('span', { class: 'spacer' }), legend()),
      this.axis,
      this.scroller,
    );
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.ticker = setInterval(() => this.model && !this.model.exec?.endedAt && this.model.at === null && this.update(), 1000);
  }

  disconnectedCallback() {
    clearInterval(this.ticker);
  }

  /** @param {import('./model.js').RunModel} model */
  attach(model) {
    this.model = model;
    this.attempts = new AttemptTimes(model, () => this.draw());
    // Sorting thousands of bars in every frame would stop the graph.
    const soon = throttle(700, () => this.update());
    model.addEventListener('nodes', () => (model.nodes.size < 300 ? this.update() : soon()));
    model.addEventListener('layout', () => this.update());
  }

  update() {
    const model = this.model;
    if (!model?.exec) return;
    const now = clockOf(model);
    const from = Date.parse(model.exec.createdAt);
    const to = model.exec.endedAt ? Date.parse(model.exec.endedAt) : Math.max(now, from + (model.at === null ? 1000 : 1));
    this.span = { from, to: Math.max(to, from + 1) };
    /** @type {Map<string, Bar[]>} */
    const inner = new Map();
    /** @type {Bar[]} */
    const top = [];
    for (const [path, node] of model.nodes) {
      const slash = path.indexOf('/');
      const loop = slash < 0 ? null : basePath(path.slice(0, slash));
      // Most nodes of a long run are inside loops that are closed.
      if (loop !== null && !model.open.has(loop)) continue;
      const start = node.startedAt ? Date.parse(node.startedAt) : 0;
      if (!start) continue;
      const bar = { path, node, depth: path.split('/').length - 1, from: start, start, end: node.endedAt ? Date.parse(node.endedAt) : now };
      if (loop === null) top.push(bar);
      else {
        const list = inner.get(loop) ?? [];
        list.push(bar);
        inner.set(loop, list);
      }
    }
    this.ready(top.concat(...inner.values()));
    const byStart = (/** @type {Bar} */ a, /** @type {Bar} */ b) => a.start - b.start;
    this.bars = top.sort(byStart).flatMap((bar) => [bar, ...(inner.get(bar.path)?.sort(byStart) ?? [])]);
    this.draw();
  }

  /**
   * When a node could have begun: when the last of those before it ended. Of the first node of an
   * iteration it is not known.
   * @param {Bar[]} bars
   */
  ready(bars) {
    const scene = this.model?.scene;
    if (!scene) return;
    const ends = new Map(bars.map((bar) => [bar.path, bar.end]));
    for (const bar of bars) {
      const i = scene.byId.get(basePath(bar.path));
      if (i === undefined) continue;
      const prefix = bar.path.slice(0, bar.path.lastIndexOf('/') + 1);
      const inside = basePath(prefix).length;
      let from = prefix ? 0 : this.span.from;
      for (const e of scene.into[i]) {
        const before = prefix + scene.id(scene.packed.edges.from[e]).slice(inside);
        from = Math.max(from, Math.min(ends.get(before) ?? 0, bar.start));
      }
      bar.from = from ? Math.min(from, bar.start) : bar.start;
    }
  }

  /** @param {string | null} path */
  select(path) {
    this.selected = path;
    const place = this.bars.findIndex((bar) => bar.path === path);
    if (place >= 0) this.reveal(place);
    this.draw();
  }

  /** @param {number} place */
  reveal(place) {
    const top = place * ROW;
    if (top < this.scroller.scrollTop || top + ROW > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top - 48;
  }

  render() {
    if (!this.isConnected || !this.model) return;
    const { from, to } = this.span;
    const at = (/** @type {number} */ t) => Math.max(0, Math.min(100, ((t - from) / (to - from)) * 100));
    fill(this.count, `${number(this.bars.length)} · ${duration(to - from)}`);
    fill(
      this.axis,
      (this.axis.clientWidth < 280 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((share) =>
        h('span', { style: { left: `${share * 100}%` } }, duration((to - from) * share)),
      ),
    );
    this.space.style.setProperty('height', `${this.bars.length * ROW}px`);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 3);
    const last = Math.min(this.bars.length, first + Math.ceil(this.scroller.clientHeight / ROW) + 6);
    const focus = focusIn(this.scroller);
    this.attempts?.wanted.clear();
    fill(
      this.space,
      this.bars.slice(first, last).map((bar, k) => this.row(bar, first + k, at)),
    );
    restore(this.scroller, focus);
    setStop(this.scroller, Math.min(Math.ceil(this.scroller.scrollTop / ROW), last - 1));
  }

  /** Attempts with a tick at each, and what lies between them; one bar where no more is known. @param {HTMLElement} track @param {Bar} bar @param {(t: number) => number} at */
  fillTrack(track, bar, at) {
    const { node, path } = bar;
    const piece = (/** @type {string} */ look, /** @type {number} */ from, /** @type {number} */ to) =>
      h('span', { class: `tl-bar ${look}`, style: { left: `${at(from)}%`, width: `max(3px, ${at(to) - at(from)}%)` } });
    const parts = partsOf(this.attempts?.of(path, node) ?? [], bar.end, (this.span.to - this.span.from) / 400);
    if (!parts.length) {
      const kind = this.model?.scene?.kindOf(path);
      const waits = node.status === 'Waiting' || kind === 'delay' || kind === 'signal';
      return track.append(piece(`${waits ? 'hatched ' : ''}${tone(node.status)}`, bar.start, bar.end));
    }
    for (const { kind, from, to, failed } of parts) track.append(piece(kind === 'wait' ? 'hatched wait' : failed ? 'bad' : tone(node.status), from, to));
    for (const { kind, from } of parts)
      if (kind === 'attempt') track.append(h('span', { class: 'tl-tick', style: { left: `${at(from)}%` } }));
  }

  /** @param {Bar} bar @param {number} place @param {(t: number) => number} at */
  row(bar, place, at) {
    const { node, path } = bar;
    const track = h('span', { class: 'tl-track' });
    if (bar.from < bar.start)
      track.append(h('span', { class: 'tl-queue', style: { left: `${at(bar.from)}%`, width: `${at(bar.start) - at(bar.from)}%` } }));
    this.fillTrack(track, bar, at);
    const median = this.medians.get(basePath(path));
    if (median)
      track.append(
        h('span', {
          class: 'tl-median',
          title: `Median of recent runs: ${duration(median)}`,
          style: { left: `${at(bar.start + median)}%` },
        }),
      );
    const words = `${path}: ${node.status}, ${duration(bar.end - bar.start)}${bar.start - bar.from > 5 ? ` after ${duration(bar.start - bar.from)} in the queue` : ''}${node.attempts > 1 ? `, ${node.attempts} attempts` : ''}`;
    return h(
      'div',
      { role: 'listitem', class: 'tl-row', data: { place }, style: { top: `${place * ROW}px` } },
      h(
        'button',
        {
          type: 'button',
          class: `tl-pick${this.selected === path ? ' mine' : ''}`,
          title: words,
          'aria-pressed': String(this.selected === path),
          on: { click: () => this.dispatchEvent(new CustomEvent('pick', { detail: path })) },
        },
        h(
          'span',
          { class: 'tl-name', style: { 'padding-left': `${bar.depth * 12}px` } },
          icon(node.status),
          h('span', null, bar.depth ? path.slice(path.indexOf('[')) : (node.name ?? path)),
          h('span', { class: 'offscreen' }, `, ${node.status}`),
        ),
        track,
        h('span', { class: 'tl-time' }, duration(bar.end - bar.start)),
      ),
    );
  }
}

function legend() {
  return h(
    'span',
    { class: 'tl-legend muted' },
    h('i', { class: 'swatch queue' }),
    'queued ',
    h('i', { class: 'swatch run' }),
    'running ',
    h('i', { class: 'swatch hatched' }),
    'waiting ',
    h('i', { class: 'swatch median' }),
    'median',
  );
}
customElements.define('w-timeline', Timeline);
