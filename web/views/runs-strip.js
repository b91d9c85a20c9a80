// A strip of counts over time, stacked by status. A click narrows the list to that time.
import { fill, h } from '../lib/dom.js';
import { getIfAny } from '../lib/api.js';
import { setParams } from '../lib/router.js';
import { local, number, plural } from '../lib/text.js';
import { tone } from '../lib/status.js';

const ORDER = ['Failed', 'Cancelled', 'Paused', 'Pending', 'Running', 'Succeeded'];
const SPAN = { '15m': 900e3, '1h': 3600e3, '6h': 216e5, '1d': 864e5, '24h': 864e5, '7d': 6048e5, '30d': 2592e6 };

/** @typedef {{ from: number, to: number, counts: Record<string, number> }} Bucket */

export class Strip extends HTMLElement {
  constructor() {
    super();
    this.className = 'strip';
    this.params = new URLSearchParams();
    this.served = false;
  }

  /** What the next counts are of. @param {URLSearchParams} params */
  expect(params) {
    this.params = params;
    // The server counts all runs; the rows that a filter leaves are counted here.
    this.served = ![...params.keys()].some((key) => ['workflow', 'label', 'parent', 'error', 'only'].includes(key));
  }

  async refresh() {
    const from = this.params.get('from') ?? '';
    const exact = Date.now() - Date.parse(from);
    const span = /** @type {Record<string, number>} */ (SPAN)[from] ?? (exact > 60e3 ? exact : 864e5);
    const now = Date.now();
    const query = new URLSearchParams({ from: new Date(now - span).toISOString(), to: new Date(now).toISOString(), buckets: '60' });
    if (!this.served) return;
    const answer = await getIfAny(`/api/v1/statistics?${query}`).catch(() => null);
    this.served = answer !== null;
    if (answer) this.draw(readBuckets(answer), span);
  }

  /** Counts of the rows in the list. @param {any[]} items */
  fallback(items) {
    if (this.served || !items.length) return;
    const times = items.map((item) => Date.parse(item.createdAt));
    const first = Math.min(...times);
    const step = Math.max(Date.now() - first, 60e3) / 60;
    /** @type {Bucket[]} */
    const buckets = Array.from({ length: 60 }, (_, i) => ({ from: first + i * step, to: first + (i + 1) * step, counts: {} }));
    items.forEach((item, i) => {
      const counts = buckets[Math.min(59, Math.floor((times[i] - first) / step))].counts;
      counts[item.status] = (counts[item.status] ?? 0) + 1;
    });
    this.draw(buckets, step * 60, `of the ${plural(items.length, 'run')} shown, `);
  }

  /** @param {Bucket[]} buckets @param {number} span @param {string} [of] which runs, if not all that match */
  draw(buckets, span, of = '') {
    const totals = buckets.map((b) => Object.values(b.counts).reduce((a, n) => a + n, 0));
    const most = Math.max(1, ...totals);
    /** @type {Record<string, number>} */
    const sums = {};
    for (const bucket of buckets) for (const [status, n] of Object.entries(bucket.counts)) sums[status] = (sums[status] ?? 0) + n;
    const bars = buckets.map((bucket, i) => {
      const words =
        Object.entries(bucket.counts)
          .filter(([, n]) => n)
          .map(([status, n]) => `${number(n)} ${status}`)
          .join(', ') || 'none';
      const from = new Date(bucket.from);
      const bar = h(
        'button',
        {
          type: 'button',
          class: 'bar',
          tabindex: totals[i] ? '0' : '-1',
          title: `${local(from)}\n${words}`,
          'aria-label': `${local(from)}: ${words}`,
        },
        ORDER.map((status) =>
          bucket.counts[status]
            ? h('span', { class: `fill-${tone(status)}`, style: { height: `${Math.max(4, (bucket.counts[status] / most) * 100)}%` } })
            : null,
        ),
      );
      bar.addEventListener('click', () => setParams({ from: from.toISOString() }));
      return bar;
    });
    const legend = ORDER.filter((status) => sums[status]).map((status) =>
      h('span', { class: tone(status) }, `${number(sums[status])} ${status.toLowerCase()}`),
    );
    fill(
      this,
      h('div', { class: 'bars', role: 'group', 'aria-label': 'Runs over time' }, bars),
      h(
        'div',
        { class: 'strip-legend' },
        h('span', { class: 'muted' }, of + spanWords(span)),
        legend.length ? legend : h('span', { class: 'muted' }, 'no runs'),
        h('span', { class: 'muted now' }, 'now'),
      ),
    );
  }
}

/** @param {number} ms */
function spanWords(ms) {
  const hours = ms / 3600e3;
  return hours < 1
    ? `${plural(Math.round(ms / 60e3), 'minute')} ago`
    : hours < 48
      ? `${plural(Math.round(hours), 'hour')} ago`
      : `${plural(Math.round(hours / 24), 'day')} ago`;
}

/** @param {import('../types/api.js').OverTime} answer @returns {Bucket[]} */
function readBuckets(answer) {
  return answer.begins.map((from, i) => ({
    from: Date.parse(from),
    to: Date.parse(answer.begins[i + 1] ?? answer.to),
    counts: Object.fromEntries(Object.entries(answer.counts).map(([status, counts]) => [status, counts[i] ?? 0])),
  }));
}
customElements.define('w-strip', Strip);
