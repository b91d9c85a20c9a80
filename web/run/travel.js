// A slider over the events: the run as it was after each of them.
import { debounce, fill, h } from '../lib/dom.js';
import { setParams } from '../lib/router.js';
import { clock, exact, number } from '../lib/text.js';

export class Travel extends HTMLElement {
  constructor() {
    super();
    this.className = 'travel';
    this.range = h('input', { type: 'range', min: '1', max: '1', step: '1', 'aria-label': 'Event' });
    this.word = h('span', { class: 'muted' });
    this.what = h('span', { class: 'travel-what' });
    this.back = h('button', { type: 'button', class: 'button small', on: { click: () => setParams({ at: null }) } }, 'Now');
    /** @type {import('./model.js').RunModel | null} */
    this.model = null;
    /** An event that was asked for and is not there. */
    this.missing = 0;
    const go = debounce(90, () => setParams({ at: this.range.value }, { replace: true }));
    this.range.addEventListener('input', () => {
      this.words(Number(this.range.value));
      go();
    });
  }

  /** @param {import('./model.js').RunModel} model @param {() => number} total */
  attach(model, total) {
    this.model = model;
    this.total = total;
    fill(this, h('span', { class: 'travel-name' }, 'Time travel'), this.range, this.what, this.word, this.back);
    model.addEventListener('events', () => this.update());
    model.addEventListener('run', () => this.update());
    model.addEventListener('travel', () => this.update());
    this.update();
  }

  update() {
    const total = Math.max(1, this.total?.() ?? 1);
    this.range.max = String(total);
    const at = this.model?.at ?? null;
    if (document.activeElement !== this.range || at === null) this.range.value = String(at ?? total);
    this.words(at);
    this.back.hidden = at === null;
  }

  /** @param {number | null} at */
  words(at) {
    const total = Number(this.range.max);
    const missing = at === total && this.missing > total ? `; there is no event ${number(this.missing)}` : '';
    fill(this.word, at === null ? `all ${number(total)} events` : `after event ${number(at)} of ${number(total)}${missing}`);
    const event = this.model?.moment;
    const known = at !== null && event?.position === at;
    fill(this.what, known ? [h('strong', null, event.kind), ' ', event.node ? h('code', null, event.node) : null, ' ', h('span', { title: exact(event.at) }, `${clock(event.at)} UTC`)] : null);
  }
}
customElements.define('w-travel', Travel);
