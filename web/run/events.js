// The event log: virtual, opens at its tail, follows while the run goes on. Rows are fetched by
// position, so a million events cost as much as a hundred.
import { eachFrame, fill, h, throttle } from '../lib/dom.js';
import { get, rememberedAnswer, runPath } from '../lib/api.js';
import { clock, exact, number } from '../lib/text.js';
import { basePath } from '../graph/body.js';
import { showWhole } from '../ui/value.js';
import { focusIn, moveByKeys, restore, setStop } from './roving.js';

const ROW = 24;
const CHUNK = 200;
/** How many chunks are kept: a page that is left open must not grow. */
const KEPT = 16;
/** Browsers clip elements that are taller. */
const TALLEST = 15_000_000;

export class EventLog extends HTMLElement {
  constructor() {
    super();
    this.className = 'events';
    /** @type {import('./model.js').RunModel | null} */
    this.model = null;
    /** @type {Map<number, any[]>} */
    this.chunks = new Map();
    /** Chunks that are on their way. @type {Set<number>} */
    this.wanted = new Set();
    /** The last event that was taken over while the run executes. */
    this.taken = 0;
    this.total = 0;
    /** Those that came with the HTML, taken before the view replaces it. @type {any[]} */
    this.came = rememberedAnswer('events')?.items ?? [];
    this.tail = true;
    /** Where it was scrolled to when it was last drawn. */
    this.drawnAt = -1;
    /** @type {string | null} */
    this.selected = null;
    this.only = false;
    this.rows = h('div', { class: 'event-rows' });
    this.space = h('div', { class: 'event-space' }, this.rows);
    this.scroller = h('div', { class: 'event-scroll', tabindex: '0', role: 'log', 'aria-label': 'Events', 'aria-live': 'off' }, this.space);
    this.count = h('span', { class: 'muted' });
    this.follow = h('button', { type: 'button', class: 'link', on: { click: () => this.toTail() } }, 'Go to the end');
    this.draw = eachFrame(() => this.render());
    moveByKeys(
      this.scroller,
      () => this.total,
      (place) => this.reveal(place),
    );
    this.scroller.addEventListener(
      'scroll',
      () => {
        // A jump to the end that the log made itself shows nothing new.
        if (this.scroller.scrollTop === this.drawnAt) return;
        this.tail = this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - ROW;
        this.draw();
      },
      { passive: true },
    );
  }

  connectedCallback() {
    fill(
      this,
      h('div', { class: 'pane-head' }, h('h2', null, 'Events'), this.count, h('span', { class: 'spacer' }), this.follow, h('span', { class: 'muted' }, 'Times in UTC')),
      this.scroller,
    );
    // A pane that becomes lower while the head above it grows must stay at its end.
    new ResizeObserver(() => (this.tail ? this.toTail() : this.draw())).observe(this.scroller);
  }

  /** @param {import('./model.js').RunModel} model */
  attach(model) {
    this.model = model;
    // No reader follows faster; a run can have thousands of events a second.
    const soon = throttle(100, () => this.grow());
    model.addEventListener('events', soon);
    model.addEventListener('travel', () => (model.at === null ? this.toTail() : this.show(model.at)));
    void this.open();
  }

  /** Positions are dense, so the last event's position is the count. */
  async open() {
    const model = this.model;
    if (!model) return;
    let end = model.position;
    if (model.at !== null)
      end = await get(`${runPath(model.id)}/statuses`, model.signal).then(
        (now) => now.sequence,
        () => end,
      );
    this.total = Math.max(this.total, end);
    this.keep(this.came);
    this.came = [];
    if (model.at !== null) this.show(model.at);
    else this.toTail();
    model.mark('events');
  }

  /** @param {any[]} items */
  keep(items) {
    for (const item of items) {
      const chunk = Math.floor((item.position - 1) / CHUNK);
      const list = this.chunks.get(chunk) ?? [];
      list[(item.position - 1) % CHUNK] = item;
      this.chunks.set(chunk, list);
    }
    for (const key of this.chunks.keys()) {
      if (this.chunks.size <= KEPT) break;
      this.chunks.delete(key);
    }
  }

  grow() {
    const model = this.model;
    if (!model) return;
    // Newer than those of the last frame, and no more than can be seen.
    let first = model.liveEvents.length;
    while (first > 0 && model.liveEvents.length - first < CHUNK * 2 && model.liveEvents[first - 1].position > this.taken) first -= 1;
    this.keep(model.liveEvents.slice(first));
    this.taken = Math.max(this.taken, model.position);
    this.total = Math.max(this.total, model.position);
    this.draw();
  }

  toTail() {
    this.tail = true;
    this.draw();
  }

  size() {
    this.space.style.setProperty('height', `${Math.min(this.total * ROW, TALLEST)}px`);
  }

  /** @param {string | null} path */
  select(path) {
    this.selected = path;
    this.draw();
  }

  /** Shows an event. @param {number} position */
  show(position) {
    this.tail = false;
    this.size();
    // In the middle, so that what came before and after is seen.
    const above = this.scroller.clientHeight / ROW / 2;
    this.scroller.scrollTop = Math.max(0, ((position - above) / Math.max(this.total, 1)) * Math.min(this.total * ROW, TALLEST));
    this.draw();
  }

  /** Scrolls as little as it takes to see a row. @param {number} place */
  reveal(place) {
    const { scroller } = this;
    const ratio = Math.min(this.total * ROW, TALLEST) / Math.max(this.total * ROW, 1);
    const [above, below] = [place * ROW * ratio, (place + 1) * ROW * ratio - scroller.clientHeight];
    if (above < scroller.scrollTop) scroller.scrollTop = above;
    else if (below > scroller.scrollTop) scroller.scrollTop = below + 1;
    this.tail = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - ROW;
    this.render();
  }

  render() {
    const model = this.model;
    if (!model || !this.isConnected) return;
    this.size();
    fill(this.count, `${number(this.total)}${model.at !== null ? ` · at ${number(model.at)}` : ''}`);
    this.follow.hidden = this.tail;
    if (this.tail) this.scroller.scrollTop = TALLEST;
    const height = this.scroller.clientHeight;
    const real = this.total * ROW;
    const ratio = real > TALLEST ? (real - height) / Math.max(TALLEST - height, 1) : 1;
    this.drawnAt = this.scroller.scrollTop;
    const top = this.drawnAt * ratio;
    const first = Math.max(0, Math.floor(top / ROW) - 4);
    const last = Math.min(this.total, first + Math.ceil(height / ROW) + 8);
    const rows = [];
    for (let place = first; place < last; place++) {
      const chunk = this.chunks.get(Math.floor(place / CHUNK));
      const event = chunk?.[place % CHUNK];
      if (!event) this.want(Math.floor(place / CHUNK));
      rows.push(event ? this.row(event, place) : h('div', { class: 'event', data: { place } }, h('span', { class: 'muted' }, `${place + 1} …`)));
    }
    this.rows.style.setProperty('transform', `translateY(${this.drawnAt - (top - first * ROW)}px)`);
    const focus = focusIn(this.scroller);
    fill(this.rows, rows);
    restore(this.scroller, focus);
    setStop(this.scroller, Math.min(Math.ceil(top / ROW), last - 1));
  }

  /** @param {number} chunk */
  async want(chunk) {
    if (this.wanted.has(chunk) || !this.model) return;
    this.wanted.add(chunk);
    try {
      const answer = await get(`${runPath(this.model.id)}/events?after=${chunk * CHUNK}&limit=${CHUNK}`, this.model.signal);
      this.chunks.delete(chunk);
      this.keep(answer.items);
      this.wanted.delete(chunk);
      this.draw();
    } catch {
      setTimeout(() => {
        this.wanted.delete(chunk);
        this.draw();
      }, 2000);
    }
  }

  /** @param {any} event @param {number} place */
  row(event, place) {
    const mine = this.selected !== null && event.node !== null && (event.node === this.selected || basePath(event.node) === this.selected);
    const later = this.model?.at !== null && event.position > (this.model?.at ?? Infinity);
    const row = h(
      'div',
      { class: `event level-${event.level}${mine ? ' mine' : ''}${later ? ' later' : ''}${this.model?.at === event.position ? ' here' : ''}`, data: { place } },
      h(
        'button',
        {
          type: 'button',
          class: 'event-at mono',
          title: `${exact(event.at)}\nShow the run as it was after this event`,
          on: { click: () => this.fire('travel', event.position) },
        },
        clock(event.at),
      ),
      h('span', { class: 'event-kind' }, event.kind),
      event.node
        ? h(
            'button',
            { type: 'button', class: 'link event-node mono', title: event.node, on: { click: () => this.fire('pick', event.node) } },
            event.node,
            event.attempt > 1 ? h('span', { class: 'muted' }, ` #${event.attempt}`) : null,
          )
        : h('span'),
      h(
        'button',
        {
          type: 'button',
          class: 'event-data',
          title: 'Show the whole event',
          on: { click: () => showWhole(`Event ${event.position}`, JSON.stringify(event, null, 2)) },
        },
        summary(event.data),
      ),
    );
    return row;
  }

  /** @param {string} kind @param {any} detail */
  fire(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

/** @param {any} data */
function summary(data) {
  if (!data) return '';
  if (data.error) return `${data.error.code}: ${String(data.error.message ?? '').slice(0, 160)}`;
  const words = Object.entries(data).map(
    ([key, value]) => `${key}=${typeof value === 'object' ? JSON.stringify(value).slice(0, 80) : String(value).slice(0, 80)}`,
  );
  return words.join(' ').slice(0, 200);
}
customElements.define('w-events', EventLog);
