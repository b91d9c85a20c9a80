// The graph as an element: pan, zoom, hover, choose, open and close, search, a minimap, and a
// list of the visible boxes for keyboards and screen readers. Fires `pick` when a box is chosen, also
// `point` if by a pointer; `toggle`; and `open` for Enter.
import { eachFrame, fill, h, throttle } from '../lib/dom.js';
import { STATUSES, noMarks, paint, readPalette } from './paint.js';
import { FarCache } from './cache.js';
import { Minimap } from './minimap.js';
import { attachPointers } from './pointers.js';

const LISTED = 120;

export class GraphElement extends HTMLElement {
  constructor() {
    super();
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    this.list = h('ul', {
      class: 'graph-list',
      role: 'listbox',
      tabindex: '0',
      'aria-label': 'Nodes of the graph: arrow keys move, Enter opens the panel, Space opens a loop',
    });
    this.far = new FarCache();
    this.map = new Minimap((x, y) => this.centre(x, y));
    this.hint = h('div', { class: 'graph-hint', role: 'tooltip', hidden: true });
    /** @type {import('./scene.js').Scene | null} */
    this.scene = null;
    /** @type {import('./paint.js').Marks | null} */
    this.marks = null;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.selected = -1;
    this.hover = -1;
    this.fitted = true;
    this.painted = false;
    /** @type {Set<number> | null} */
    this.found = null;
    this.size = { width: 0, height: 0, ratio: 1 };
    this.draw = eachFrame(() => this.paint());
    this.relist = throttle(150, () => this.drawList());
  }

  connectedCallback() {
    this.className = 'graph';
    const zoomBy = (/** @type {number} */ factor) => () => this.zoom(factor, this.size.width / 2, this.size.height / 2);
    fill(
      this,
      this.canvas,
      this.list,
      this.map,
      this.hint,
      h(
        'div',
        { class: 'graph-tools' },
        h('button', { type: 'button', title: 'Zoom in', 'aria-label': 'Zoom in', on: { click: zoomBy(1.3) } }, '+'),
        h('button', { type: 'button', title: 'Zoom out', 'aria-label': 'Zoom out', on: { click: zoomBy(1 / 1.3) } }, '−'),
        h('button', { type: 'button', title: 'Show all', 'aria-label': 'Show the whole graph', on: { click: () => this.fit() } }, '⤢'),
      ),
    );
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this);
    this.theme = matchMedia('(prefers-color-scheme: dark)');
    this.recolour = () => {
      this.palette = readPalette(this);
      this.map.stale = true;
      this.draw();
    };
    this.theme.addEventListener('change', this.recolour);
    this.palette = readPalette(this);
    attachPointers(this);
    this.list.addEventListener('keydown', (event) => this.key(event));
    for (const kind of ['focus', 'blur']) this.list.addEventListener(kind, () => this.draw());
  }

  disconnectedCallback() {
    this.watch?.disconnect();
    if (this.recolour) this.theme?.removeEventListener('change', this.recolour);
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} [marks] */
  setScene(scene, marks) {
    const first = !this.scene;
    const kept = this.selected >= 0 ? this.scene?.id(this.selected) : undefined;
    this.scene = scene;
    this.marks = marks ?? noMarks(scene);
    this.selected = kept !== undefined ? (scene.byId.get(kept) ?? -1) : -1;
    this.hover = -1;
    this.map.stale = true;
    if (first || this.fitted) this.fit();
    this.draw();
    this.relist();
  }

  /** @param {import('./paint.js').Marks} marks */
  setMarks(marks) {
    this.marks = marks;
    this.map.changed();
    this.draw();
    this.relist();
  }

  /** @param {string | null} id @param {boolean} [reveal] */
  select(id, reveal = false) {
    const i = id === null ? -1 : (this.scene?.byId.get(id) ?? -1);
    if (i === this.selected) return;
    this.selected = i;
    if (reveal && i >= 0) this.reveal(i);
    this.draw();
    this.relist();
  }

  /** Dims all other boxes; null dims none. @param {Set<number> | null} found */
  mark(found) {
    this.found = found;
    this.draw();
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const { width, height } = this.getBoundingClientRect();
    if (!width || !height) return;
    this.size = { width, height, ratio };
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.fitted) this.fit();
    this.paint();
    this.relist();
  }

  fit() {
    const scene = this.scene;
    const { width, height } = this.size;
    if (!scene || !width) return;
    const scale = Math.min(1, (width - 32) / scene.width, (height - 32) / scene.height);
    // A tall graph in a low pane would be unreadable: show its beginning instead.
    const used = scene.count < 400 ? Math.max(scale, Math.min(0.62, (width - 24) / scene.width)) : scale;
    this.camera.scale = Math.max(used, 0.005);
    this.camera.x = (scene.width - width / this.camera.scale) / 2;
    this.camera.y = used > scale && scene.height * used > height ? -12 / used : (scene.height - height / this.camera.scale) / 2;
    this.fitted = true;
    this.draw();
    this.relist();
  }

  /** @param {number} x @param {number} y */
  centre(x, y) {
    this.camera.x = x - this.size.width / this.camera.scale / 2;
    this.camera.y = y - this.size.height / this.camera.scale / 2;
    this.fitted = false;
    this.draw();
    this.relist();
  }

  /** @param {number} i */
  reveal(i) {
    const scene = this.scene;
    if (!scene || !this.size.width) return;
    const { camera, size } = this;
    if (camera.scale < 0.5) camera.scale = 0.8;
    const margin = 24 / camera.scale;
    const inside =
      scene.x[i] > camera.x + margin &&
      scene.y[i] > camera.y + margin &&
      scene.x[i] + scene.w[i] < camera.x + size.width / camera.scale - margin &&
      scene.y[i] + 48 < camera.y + size.height / camera.scale - margin;
    if (!inside) this.centre(scene.x[i] + scene.w[i] / 2, scene.y[i] + 24);
  }

  /** @param {number} factor @param {number} px @param {number} py */
  zoom(factor, px, py) {
    const { camera } = this;
    const scale = Math.min(3, Math.max(0.005, camera.scale * factor));
    camera.x += px / camera.scale - px / scale;
    camera.y += py / camera.scale - py / scale;
    camera.scale = scale;
    this.fitted = false;
    this.draw();
    this.relist();
  }

  paint() {
    if (!this.scene || !this.marks || !this.size.width) return;
    const how = {
      ...this.size,
      selected: this.selected,
      hover: this.hover,
      focused: document.activeElement === this.list,
      found: this.found,
      palette: this.palette ?? {},
    };
    if (!this.far.paint(this.g, this.scene, this.marks, this.camera, how, this.draw))
      paint(this.g, this.scene, this.marks, this.camera, how);
    this.map.paint(this.scene, this.marks, this.camera, how);
    if (!this.painted) performance.mark('graph-painted');
    this.painted = true;
  }

  /** @param {number} i @param {{ x: number, y: number }} p */
  clicked(i, p) {
    const scene = this.scene;
    if (i < 0) return this.choose(-1);
    if (
      scene?.folds(i) &&
      this.camera.x + p.x / this.camera.scale > scene.x[i] + scene.w[i] - 26 &&
      this.camera.y + p.y / this.camera.scale < scene.y[i] + 48
    )
      return this.toggle(i);
    this.choose(i);
    this.fire('point', scene?.id(i) ?? null);
  }

  /** @param {number} i */
  choose(i) {
    const id = this.scene?.id(i) ?? null;
    this.select(id);
    this.fire('pick', id);
  }

  /** @param {number} i @param {{ x: number, y: number }} p */
  hovered(i, p) {
    if (i !== this.hover) {
      this.hover = i;
      this.canvas.style.setProperty('cursor', i >= 0 ? 'pointer' : 'grab');
      this.draw();
    }
    this.hint.hidden = i < 0 || this.camera.scale > 0.5;
    if (this.hint.hidden) return;
    fill(this.hint, this.describe(i));
    this.hint.style.setProperty('left', `${Math.min(p.x + 12, this.size.width - 200)}px`);
    this.hint.style.setProperty('top', `${p.y + 14}px`);
  }

  /** @param {number} i */
  describe(i) {
    const status = this.marks?.status[i] ?? 255;
    const note = this.marks?.notes.get(i);
    return `${this.scene?.packed.nodes.label[i]}${status === 255 ? '' : `, ${STATUSES[status]}`}${note ? `, ${note}` : ''}`;
  }

  /** @param {number} i */
  toggle(i) {
    if (this.scene?.folds(i)) this.fire('toggle', this.scene.id(i));
  }

  /** @param {string} kind @param {string | null} id */
  fire(kind, id) {
    this.dispatchEvent(new CustomEvent(kind, { detail: id }));
  }

  drawList() {
    const scene = this.scene;
    if (!scene || !this.isConnected) return;
    const { camera, size } = this;
    const seen =
      scene.within(camera.x, camera.y, camera.x + size.width / camera.scale, camera.y + size.height / camera.scale) ??
      Array.from({ length: Math.min(scene.count, LISTED) }, (_, i) => i);
    const items = seen.slice(0, LISTED);
    if (this.selected >= 0 && !items.includes(this.selected)) items.push(this.selected);
    fill(
      this.list,
      items.map((i) => h('li', { role: 'option', id: `box-${i}`, 'aria-selected': String(i === this.selected) }, this.describe(i))),
    );
    if (this.selected >= 0) this.list.setAttribute('aria-activedescendant', `box-${this.selected}`);
    else this.list.removeAttribute('aria-activedescendant');
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const scene = this.scene;
    if (!scene || !scene.count || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowDown: [0, 1],
      ArrowUp: [0, -1],
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
    });
    const move = moves[event.key];
    if (move) {
      const next = this.selected < 0 ? 0 : scene.neighbour(this.selected, ...move);
      if (next >= 0) {
        this.reveal(next);
        this.choose(next);
      }
    } else if (event.key === 'Enter') this.fire('open', this.selected >= 0 ? scene.id(this.selected) : null);
    else if (event.key === ' ' && this.selected >= 0) this.toggle(this.selected);
    else if (event.key === '+' || event.key === '=') this.zoom(1.3, this.size.width / 2, this.size.height / 2);
    else if (event.key === '-') this.zoom(1 / 1.3, this.size.width / 2, this.size.height / 2);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
  }
}
customElements.define('w-graph', GraphElement);
