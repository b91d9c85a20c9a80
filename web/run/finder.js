// Finds nodes by path and name: also those inside closed loops and groups, which it opens to show one.
import { debounce, fill, h } from '../lib/dom.js';
import { plural, number } from '../lib/text.js';
import { setParams } from '../lib/router.js';

export class Finder extends HTMLElement {
  constructor() {
    super();
    this.className = 'finder';
    this.input = h('input', {
      type: 'search',
      placeholder: 'Find a node',
      title: 'Enter shows the next node, Shift and Enter the one before',
      'aria-label': 'Find a node in the graph',
      class: 'find',
    });
    this.count = h('span', { class: 'muted find-count', role: 'status' });
    /** @type {import('./model.js').RunModel | null} */
    this.model = null;
    /** @type {import('../graph/view.js').GraphElement | null} */
    this.graph = null;
    this.words = '';
    /** Paths of the nodes that were found. @type {string[]} */
    this.hits = [];
    /** Which of them was shown last. */
    this.place = -1;
    this.asked = 0;
    const soon = debounce(120, () => setParams({ find: this.input.value.trim() || null }, { replace: true }));
    this.input.addEventListener('input', soon);
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      void this.next(event.shiftKey ? -1 : 1);
    });
  }

  /** @param {import('./model.js').RunModel} model @param {import('../graph/view.js').GraphElement} graph */
  attach(model, graph) {
    this.model = model;
    this.graph = graph;
    fill(this, this.count, this.input);
    model.addEventListener('layout', () => this.mark());
  }

  /** What the address says is looked for. @param {string} words */
  show(words) {
    if (words === this.words || !this.model?.scene) return;
    this.words = words;
    if (document.activeElement !== this.input) this.input.value = words;
    void this.search();
  }

  async search() {
    const mine = ++this.asked;
    this.place = -1;
    if (this.words) await this.model?.loadIds().catch(() => {});
    const scene = this.model?.scene;
    if (mine !== this.asked || !scene) return;
    this.hits = this.words ? matches(scene, this.words.toLowerCase()) : [];
    this.mark();
    const first = this.hits.length ? scene.holder(this.hits[0]) : -1;
    if (first >= 0) this.graph?.reveal(first);
  }

  /** Dims what holds nothing that was found, and says how much that is. */
  mark() {
    const scene = this.model?.scene;
    if (!scene) return;
    this.graph?.mark(this.words ? new Set(this.hits.map((path) => scene.holder(path))) : null);
    const found = this.hits.length ? plural(this.hits.length, 'node') : 'no such node';
    fill(this.count, !this.words ? '' : this.place < 0 ? found : `${number(this.place + 1)} of ${number(this.hits.length)}`);
  }

  /** @param {number} step */
  async next(step) {
    const words = this.input.value.trim();
    if (words !== this.words) {
      this.words = words;
      setParams({ find: words || null }, { replace: true });
      await this.search();
    }
    const count = this.hits.length;
    if (!count || !this.model) return;
    this.place = this.place < 0 && step < 0 ? count - 1 : (this.place + step + count) % count;
    const path = this.hits[this.place];
    await this.unfold(this.model, path);
    this.mark();
    const { scene } = this.model;
    const inGroup = scene && (scene.packed.nodes.count[scene.byId.get(path) ?? -1] ?? 0) > 1;
    setParams({ node: path, single: inGroup || null, open: [...this.model.open] });
  }

  /** Opens what hides a node, from the outside to the inside. @param {import('./model.js').RunModel} model @param {string} path */
  async unfold(model, path) {
    const tried = new Set();
    for (;;) {
      const { scene } = model;
      const box = scene?.holder(path) ?? -1;
      if (!scene || box < 0) return;
      const id = scene.id(box);
      const isOwn = id === path && scene.packed.nodes.count[box] === 1;
      // What is open or was tried hides it for good.
      if (isOwn || scene.opened.has(box) || tried.has(id) || model.open.has(id)) return;
      tried.add(id);
      await model.toggle(id);
    }
  }
}

/** Nodes whose path, or whose name if they are drawn, has the words, in the order of the definition. @param {import('../graph/scene.js').Scene} scene @param {string} words */
function matches(scene, words) {
  const { ids, nodes } = scene.packed;
  const named = new Set(nodes.id.filter((id, i) => nodes.count[i] === 1 && nodes.label[i].toLowerCase().includes(words)));
  return (ids ?? nodes.id).filter((path) => path.toLowerCase().includes(words) || named.has(path));
}

customElements.define('w-find', Finder);
