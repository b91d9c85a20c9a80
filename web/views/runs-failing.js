// What fails now: failures that were not forked, grouped by workflow and root cause, with since
// when, how many, and the two things to do about a group: look at its runs, or reattempt them.
import { fill, h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { can } from '../lib/session.js';
import { withParams } from '../lib/router.js';
import { icon } from '../lib/status.js';
import { number } from '../lib/text.js';
import { button, time } from '../ui/bits.js';
import { listQuery } from './runs-filter.js';
import { rootCause } from './runs-rows.js';

/** How many failures are looked at, and how many groups are shown. */
const NEWEST = 200;
const SHOWN = 5;

/** @typedef {{ workflow: string, code: string, words: string, count: number, first: string, last: string }} Group */

export class Failing extends HTMLElement {
  constructor() {
    super();
    this.className = 'failing';
    this.hidden = true;
    this.from = '1d';
    this.wanted = true;
    this.drawn = '';
  }

  /** Groups are of all runs: filters other than the time have their own list. @param {URLSearchParams} params */
  show(params) {
    this.from = params.get('from') ?? '1d';
    this.wanted = ![...params.keys()].some((key) => key !== 'from' && key !== 'job');
    if (!this.wanted) this.hidden = true;
    this.drawn = '';
  }

  /** @param {AbortSignal} signal */
  async refresh(signal) {
    if (!this.wanted) return;
    const query = new URLSearchParams({ status: 'Failed', unresolved: 'true', children: 'false', from: this.from, limit: String(NEWEST) });
    const answer = await get(`/api/v1/executions?${query}`, signal).catch(() => null);
    if (!answer || !this.wanted) return;
    const groups = group(answer.items);
    const key = JSON.stringify([groups, answer.next]);
    this.hidden = !groups.length;
    if (key === this.drawn || (this.contains(document.activeElement) && this.drawn)) return;
    this.drawn = key;
    fill(
      this,
      h('h2', null, 'Failing now', h('span', { class: 'muted' }, answer.next ? `, of the newest ${number(NEWEST)} failures` : '')),
      h(
        'ul',
        null,
        groups.slice(0, SHOWN).map((item) => this.line(item)),
      ),
      groups.length > SHOWN ? h('a', { class: 'muted', href: withParams({ status: 'Failed' }) }, `${groups.length - SHOWN} more causes`) : null,
    );
  }

  /** @param {Group} item */
  line(item) {
    const params = new URLSearchParams({ workflow: item.workflow, status: 'Failed', error: item.code, from: this.from, only: 'unresolved' });
    const many = `${number(item.count)} ${item.count === 1 ? 'run' : 'runs'}`;
    return h(
      'li',
      null,
      h('a', { class: 'failing-what', href: `/?${params}`, title: 'Show these runs' }, [
        icon('Failed'),
        h('strong', { class: 'bad' }, many),
        h('span', { class: 'strong' }, item.workflow),
        h('code', { class: 'bad' }, item.code),
        h('span', { class: 'failing-words' }, item.words),
      ]),
      h('span', { class: 'muted failing-when' }, item.count > 1 ? ['since ', time(item.first), ', last '] : null, time(item.last)),
      can('workflows:execute') ? button('Reattempt', () => void import('./runs-bulk.js').then(({ openBulk }) => openBulk(listQuery(params))), 'small') : null,
    );
  }
}

/** Largest first; of equals, the one that failed last. @param {any[]} items newest first @returns {Group[]} */
export function group(items) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const run of items) {
    if (!run.error || run.dead) continue;
    const { code, words } = rootCause(run);
    const key = JSON.stringify([run.workflowId, code]);
    const at = run.endedAt ?? run.createdAt;
    const known = groups.get(key);
    if (known) {
      known.count += 1;
      if (at < known.first) known.first = at;
      if (at > known.last) known.last = at;
    } else groups.set(key, { workflow: run.workflowId, code, words: words.slice(0, 300), count: 1, first: at, last: at });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || (a.last < b.last ? 1 : -1));
}
customElements.define('w-failing', Failing);
