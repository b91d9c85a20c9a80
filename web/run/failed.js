// What failed in the iterations of a loop whose instances are too many to list: asked for a few
// iterations at a time, since each brings the values of its nodes.
import { fill, h } from '../lib/dom.js';
import { getIfAny, runPath } from '../lib/api.js';
import { number } from '../lib/text.js';
import { withParams } from '../lib/router.js';

const PAGE = 20;

export class FailedIterations {
  /** @param {import('./model.js').RunModel} model @param {string} path of the loop */
  constructor(model, path) {
    this.model = model;
    this.path = path;
    this.at = model.at;
    /** By iteration, the paths of what failed in it. @type {Map<number, string[]>} */
    this.known = new Map();
    /** @type {number[]} */
    this.which = [];
    this.title = h('span', { class: 'bad' });
    this.list = h('ul', { class: 'members' });
    this.button = h('button', { type: 'button', class: 'link', on: { click: () => void this.more() } });
    this.element = h('div', null, this.title, this.list, this.button);
    this.asks = false;
  }

  /** Whether it shows this loop at the moment that is shown. @param {string} path */
  isOf(path) {
    return this.path === path && this.at === this.model.at;
  }

  /** @param {number[]} which the first that failed @param {number} total how many failed */
  show(which, total) {
    this.which = which;
    fill(this.title, which.length < total ? `The first ${number(which.length)} of ${number(total)} failed iterations` : 'Failed iterations');
    if (this.known.size) this.draw();
    else void this.more();
    return this.element;
  }

  async more() {
    const next = this.which.filter((n) => !this.known.has(n)).slice(0, PAGE);
    if (this.asks || !next.length) return;
    this.asks = true;
    const query = new URLSearchParams(next.map((n) => ['nodes', `${this.path}[${n}]`]));
    if (this.at !== null) query.set('at', String(this.at));
    const run = await getIfAny(`${runPath(this.model.id)}?${query}`, this.model.signal).catch(() => null);
    this.asks = false;
    if (!run) return;
    for (const n of next) this.known.set(n, failedIn(run.nodes, `${this.path}[${n}]/`));
    this.draw();
  }

  draw() {
    fill(
      this.list,
      [...this.known].map(([n, paths]) =>
        h(
          'li',
          null,
          paths.length ? paths.map((path) => [h('a', { class: 'mono', href: withParams({ node: path }) }, path.slice(this.path.length)), ' ']) : `[${n}]`,
        ),
      ),
    );
    const left = this.which.filter((n) => !this.known.has(n)).length;
    this.button.hidden = left === 0;
    this.button.textContent = `${number(left)} more`;
  }
}

/** Where it failed: not the loops around what failed, nor what a failure edge handled. @param {Record<string, any>} nodes @param {string} inside */
function failedIn(nodes, inside) {
  const failed = Object.keys(nodes).filter((path) => path.startsWith(inside) && nodes[path].status === 'Failed' && !nodes[path].handled);
  return failed.filter((path) => !failed.some((other) => other.startsWith(`${path}[`)));
}
