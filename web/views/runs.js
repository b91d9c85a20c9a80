// All runs: what fails now, since when, and why. Filters are in the address.
import { Parts, arrange, fill, h, painted, setTitle } from '../lib/dom.js';
import { get, pollMs, rememberedAnswer } from '../lib/api.js';
import { View, empty, failure, loading } from '../lib/view.js';
import { can } from '../lib/session.js';
import { navigate, setParams } from '../lib/router.js';
import { button, commandLine } from '../ui/bits.js';
import { number } from '../lib/text.js';
import { fillNames, filterBar, listQuery } from './runs-filter.js';
import { Strip } from './runs-strip.js';
import { readMedians } from './medians.js';
import { rowsOf, shownOf } from './runs-rows.js';
import { Failing } from './runs-failing.js';
import { guide } from './runs-guide.js';

/** The server's HTML has as many with it: `LISTED` in `crates/api/src/page/views.rs`. */
const PAGE = 100;

/** How many rows fill a tall screen. */
const SEEN = 25;

class Runs extends View {
  constructor() {
    super();
    this.head = h('div', { class: 'page-head' });
    this.bar = h('div', { class: 'filters' });
    this.strip = new Strip();
    this.list = h('div', { class: 'runs', role: 'table', 'aria-label': 'Runs' });
    this.more = h('div', { class: 'buttons' });
    this.guide = h('div');
    /** @type {any[]} */
    this.items = [];
    /** @type {string | null} */
    this.next = null;
    this.pages = 1;
    /** @type {import('./runs-rows.js').Opened} */
    this.open = new Map();
    this.rows = new Parts();
    this.failing = new Failing();
    this.asked = 0;
    this.drawn = '';
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'runs';
  }

  /** @param {import('../lib/router.js').Route} now */
  start(now) {
    setTitle('Runs');
    fill(this, h('div', { class: 'page runs-page' }, this.head, this.guide, this.strip, this.failing, this.bar, this.list, this.more));
    fill(
      this.head,
      h('h1', null, 'Runs'),
      h('span', { class: 'spacer' }),
      can('workflows:execute') ? button('Act on all that match', () => bulk(listQuery(new URLSearchParams(location.search)))) : null,
      can('workflows:execute') ? button('Start', () => navigate('/workflows'), 'primary') : null,
    );
    loading(this.list);
    this.routed(now);
    this.repeat(pollMs, () => this.load(true));
  }

  /** @param {import('../lib/router.js').Route} now */
  routed(now) {
    this.pages = 1;
    this.drawn = '';
    filterBar(this.bar, now.params);
    this.failing.show(now.params);
    // A job that this view started is in its dialog already.
    if (now.params.get('job') && can('workflows:execute') && !document.querySelector('dialog'))
      bulk(listQuery(now.params), now.params.get('job') ?? '');
    this.strip.expect(now.params);
    void this.load(false).then(() => fillNames(this.bar));
  }

  refresh() {
    void this.load(true);
  }

  /** @param {boolean} quiet */
  async load(quiet) {
    const mine = ++this.asked;
    const query = listQuery(new URLSearchParams(location.search)).search;
    query.set('limit', String(PAGE));
    try {
      /** @type {any[]} */
      const items = [];
      let next = null;
      for (let page = 0; page < this.pages; page++) {
        if (next) query.set('cursor', next);
        const answer = rememberedAnswer('list') ?? (await get(`/api/v1/executions?${query}`, this.abort.signal));
        items.push(...answer.items);
        next = answer.next ?? null;
        if (!next) break;
      }
      if (mine !== this.asked) return;
      this.items = items;
      this.next = next;
      await Promise.all([...this.open.keys()].map((id) => this.loadChildren(id)));
      if (mine !== this.asked) return;
      this.draw();
      this.ready();
      await this.surround(mine);
    } catch (error) {
      if (this.abort.signal.aborted || mine !== this.asked) return;
      if (!quiet || !this.items.length)
        fill(
          this.list,
          failure(error, () => this.load(false)),
        );
    }
  }

  /** What is around the rows follows once they are on the screen. @param {number} mine */
  async surround(mine) {
    await painted();
    if (!this.isConnected || mine !== this.asked) return;
    this.strip.fallback(this.items);
    void this.strip.refresh();
    void this.failing.refresh(this.abort.signal);
    const children = [...this.open.values()].flatMap((runs) => runs ?? []);
    if ((await readMedians([...this.items, ...children], this.abort.signal)) && mine === this.asked) this.drawRows(this.items);
  }

  /** @param {string} id */
  async loadChildren(id) {
    const answer = await get(`/api/v1/executions?parent=${encodeURIComponent(id)}&limit=200`, this.abort.signal).catch(() => null);
    if (answer && this.open.has(id)) this.open.set(id, answer.items);
  }

  draw() {
    const params = new URLSearchParams(location.search);
    const opened = [...this.open].map(([id, children]) => [id, children?.map(shownOf)]);
    const key = JSON.stringify([this.items.map(shownOf), opened, this.next]);
    if (key === this.drawn) {
      // Nothing but durations.
      if (this.items.length && this.list.querySelector('.run-row')) this.drawRows(this.items);
      return;
    }
    this.drawn = key;
    const first = guide(this.items);
    fill(this.guide, first);
    if (!this.items.length) {
      fill(this.list, params.size ? nothingFits() : nothingYet());
      fill(this.more);
      return;
    }
    // What is seen at once comes first; the rest of the list follows in the next frame.
    const isFirst = !this.list.querySelector('.run-row');
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const href = focused?.getAttribute('href');
    this.drawRows(isFirst ? this.items.slice(0, SEEN) : this.items);
    if (isFirst && this.items.length > SEEN)
      requestAnimationFrame(() =>
        setTimeout(() => {
          this.drawn = '';
          this.draw();
        }),
      );
    if (href && !focused?.isConnected)
      /** @type {HTMLElement | null} */ (this.list.querySelector(`a[href="${CSS.escape(href)}"]`))?.focus();
    fill(
      this.more,
      h('span', { class: 'muted' }, `${number(this.items.length)} shown${this.next ? '' : ', all that match'}`),
      this.next
        ? button('Show more', () => {
            this.pages += 1;
            void this.load(false);
          })
        : null,
    );
  }

  /** @param {any[]} items */
  drawRows(items) {
    const toggle = (/** @type {string} */ id) => {
      if (!this.open.delete(id)) {
        this.open.set(id, null);
        void this.loadChildren(id).then(() => this.draw());
      }
      this.draw();
    };
    arrange(this.list, rowsOf(items, this.open, toggle, this.rows));
  }
}

/** @param {ReturnType<typeof listQuery>} query @param {string} [job] */
function bulk(query, job) {
  void import('./runs-bulk.js').then(({ openBulk }) => openBulk(query, job));
}

function nothingFits() {
  return empty(
    'No run matches these filters',
    'Widen the time or take a filter away.',
    h(
      'div',
      { class: 'buttons' },
      button('Clear the filters', () => navigate('/')),
      button('Any time', () => setParams({ from: null })),
    ),
  );
}

function nothingYet() {
  return empty(
    'No runs yet',
    'Publish a workflow and start it; its run appears here while it executes.',
    commandLine('windlass publish examples/diamond.json'),
    commandLine('windlass start diamond --trigger \'{"amount": 7}\''),
    h(
      'div',
      { class: 'buttons' },
      h('a', { class: 'button primary', href: '/editor' }, 'Write a workflow'),
      h('a', { class: 'button', href: '/workflows' }, 'Workflows'),
    ),
  );
}
customElements.define('w-runs', Runs);
