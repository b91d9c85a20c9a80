// The top of a run: what it is, where it stands, the root cause with its path, what can be done.
import { Parts, arrange, fill, h, throttle } from '../lib/dom.js';
import { getIfAny, runPath } from '../lib/api.js';
import { badge, ended } from '../lib/status.js';
import { duration, number, plural, shortId } from '../lib/text.js';
import { runHref, withParams, workflowHref } from '../lib/router.js';
import { copyButton, labelChips, time } from '../ui/bits.js';
import { longText } from '../ui/value.js';
import { actionButtons } from '../act/buttons.js';
import { clockOf } from './moment.js';
import { NAMED, waitsThen } from './waits.js';

export class RunHead extends HTMLElement {
  constructor() {
    super();
    this.className = 'run-head';
    this.top = h('div');
    this.titles = h('div', { class: 'run-title' });
    this.facts = h('div', { class: 'run-facts' });
    this.parts = new Parts();
    this.cause = h('div');
    this.caused = '';
  }

  /** @param {import('./model.js').RunModel} model */
  attach(model) {
    fill(this, this.top, this.cause);
    const draw = () => this.draw(model);
    model.addEventListener('run', draw);
    model.addEventListener('stream', draw);
    const soon = throttle(250, draw);
    model.addEventListener('nodes', () => (model.nodes.size < 300 ? draw() : soon()));
    this.ticker = setInterval(draw, 1000);
  }

  disconnectedCallback() {
    clearInterval(this.ticker);
  }

  /** @param {import('./model.js').RunModel} model */
  draw(model) {
    const { exec } = model;
    if (!exec) return;
    const took = exec.startedAt ? (exec.endedAt ? Date.parse(exec.endedAt) : clockOf(model)) - Date.parse(exec.startedAt) : null;
    this.drawTitle(model);
    this.drawFacts(model, took);
    const waits = model.at !== null ? waitsThen(model) : model.nodes.size < 3000 ? waitingNow(model) : [];
    const cause = JSON.stringify([exec.status, exec.error, model.at, waits]);
    if (cause === this.caused) return;
    this.caused = cause;
    this.drawCause(model);
  }

  /** Part by part: a run in progress changes all the time, and its buttons must stay where they are. @param {import('./model.js').RunModel} model */
  drawTitle(model) {
    const { exec, at, stream } = model;
    const { parts } = this;
    // The first HTML has a run without its nodes, and without large values: commands need all of it.
    const acts = !exec.isPartial && at === null && stream !== 'gone';
    const focused = this.titles.contains(document.activeElement) ? document.activeElement : null;
    arrange(this.titles, [
      parts.part('badge', exec.status, () => badge(exec.status)),
      parts.part('name', exec.workflowId, () => h('h1', null, h('a', { href: workflowHref(exec.workflowId), class: 'plain' }, exec.workflowId))),
      parts.part('id', exec.executionId, () => h('span', { class: 'mono muted' }, exec.executionId)),
      parts.part('copy', exec.executionId, () => copyButton(exec.executionId, 'Copy the id')),
      parts.part('live', [stream, at, exec.status], () => liveState(model) ?? h('span', { hidden: true })),
      acts && parts.part('actions', [exec.status, exec.compensation], () => actionButtons(model, null) ?? h('span', { hidden: true })),
    ]);
    // A button that is made again has the focus again.
    if (focused && !focused.isConnected)
      [...this.titles.querySelectorAll('button')].find((button) => button.textContent === focused.textContent)?.focus();
    arrange(this.top, [parts.part('crumbs', [exec.workflowId, exec.parent], () => crumbs(exec)), this.titles, this.facts]);
  }

  /** @param {import('./model.js').RunModel} model @param {number | null} took */
  drawFacts(model, took) {
    const { exec } = model;
    const { parts } = this;
    const lasted = took === null ? null : `${ended(exec.status) ? 'took' : 'for'} ${duration(took)}`;
    arrange(this.facts, [
      parts.part('version', exec.version, () => h('span', null, exec.version ? `version ${exec.version}` : 'dynamic graph')),
      parts.part('created', exec.createdAt, () => h('span', null, 'created ', time(exec.createdAt))),
      lasted !== null && parts.part('took', lasted, () => h('span', null, lasted)),
      parts.part('counts', exec.counts, () => counts(exec.counts) ?? h('span', { hidden: true })),
      exec.compensation &&
        parts.part('compensation', exec.compensation, () =>
          h('span', { class: exec.compensation === 'complete' ? 'good' : 'wait' }, `compensation ${exec.compensation}`),
        ),
      exec.origin &&
        parts.part('origin', exec.origin.executionId, () =>
          h('span', null, 'fork of ', h('a', { class: 'mono', href: runHref(exec.origin.executionId) }, shortId(exec.origin.executionId))),
        ),
      parts.part('labels', exec.labels, () => labelChips(exec.labels, (k, v) => `/?label=${encodeURIComponent(`${k}=${v}`)}`)),
    ]);
  }

  /** @param {import('./model.js').RunModel} model */
  drawCause(model) {
    const { error, status } = model.exec;
    if (!error) {
      this.drawWaits(model.at === null || ended(status) ? [] : waitsThen(model));
      if (model.at === null && !ended(status)) void this.drawWhy(model);
      return;
    }
    const causes = error.causes ?? [];
    const box = h('div', { class: 'root-cause', role: 'region', 'aria-label': 'Root cause' });
    if (!causes.length) fill(box, h('div', null, h('code', { class: 'bad' }, error.code), ' ', longText(error.message)));
    for (const cause of causes.slice(0, 10)) {
      const trail = h('div', { class: 'trail' }, link(model.id, cause));
      box.append(
        h(
          'div',
          { class: 'cause-item' },
          h('div', { class: 'cause-words' }, h('code', { class: 'bad' }, cause.code), ' ', longText(cause.message)),
          trail,
        ),
      );
      void trailOf(model, cause)
        .then((parts) => fill(trail, parts))
        .catch(() => {});
    }
    fill(this.cause, box);
  }

  /** What is awaited now; the server knows of no earlier moment. @param {import('./model.js').RunModel} model */
  async drawWhy(model) {
    const mine = this.caused;
    const why = await getIfAny(`${runPath(model.id)}/why`, model.signal).catch(() => null);
    if (!why || mine !== this.caused) return;
    const waiting = why.nodes?.filter((/** @type {any} */ n) => n.status === 'Waiting').slice(0, NAMED) ?? [];
    const isHeld = model.exec.status === 'Pending' || model.exec.status === 'Paused';
    this.drawWaits(waiting.length ? waiting.map(shortened) : isHeld ? [{ node: null, reason: why.reason }] : []);
  }

  /** @param {import('./waits.js').Wait[]} waits */
  drawWaits(waits) {
    const lines = waits.map(({ node, reason }) =>
      h('div', null, node === null ? null : [h('a', { class: 'mono', href: withParams({ node }) }, node), ' '], longText(reason, 300)),
    );
    fill(this.cause, lines.length ? h('div', { class: 'root-cause waits' }, lines) : null);
  }
}

/** The nodes whose waits are asked for again when they change. @param {import('./model.js').RunModel} model */
function waitingNow(model) {
  const waiting = [...model.nodes].filter(([, node]) => node.status === 'Waiting');
  return waiting.slice(0, 5).map(([path]) => path);
}

/** The server's sentence after the node's name, without the command. @param {{ node: string, reason: string }} item @returns {import('./waits.js').Wait} */
function shortened({ node, reason }) {
  const name = new RegExp(`^${node.replace(/[^\w-]/g, '\\$&')} `);
  return { node, reason: reason.replace(name, '').replace(/: windlass .*$/, '') };
}

/** From this run to the cause, through loops and child runs. @param {import('./model.js').RunModel} model @param {any} cause */
async function trailOf(model, cause) {
  /** @type {HTMLElement[]} */
  const parts = [link(model.id, cause)];
  let at = cause.executionId;
  for (let depth = 0; at !== model.id && depth < 12; depth++) {
    const run = await getIfAny(`${runPath(at)}?nodes=${encodeURIComponent(cause.node)}`, model.signal);
    if (!run?.parent) break;
    const { executionId, node } = run.parent;
    parts.unshift(h('span', { class: 'muted' }, '›'));
    parts.unshift(h('a', { class: 'mono', href: executionId === model.id ? withParams({ node }) : runHref(executionId, { node }) }, node));
    at = executionId;
  }
  return parts;
}

/** @param {string} id @param {any} cause */
function link(id, cause) {
  return cause.executionId === id
    ? h('a', { class: 'mono', href: withParams({ node: cause.node }) }, cause.node)
    : h('a', { class: 'mono', href: runHref(cause.executionId, { node: cause.node }) }, `${shortId(cause.executionId)} ${cause.node}`);
}

/** @param {Record<string, number>} all */
function counts(all) {
  const words = Object.entries(all ?? {})
    .filter(([, n]) => n)
    .map(([name, n]) => `${number(n)} ${name}`);
  const total = Object.values(all ?? {}).reduce((a, b) => a + b, 0);
  return h('span', { title: words.join('\n') }, `${plural(total, 'node')}: ${words.join(' · ')}`);
}

/** Where the run belongs. @param {any} exec */
function crumbs(exec) {
  return h(
    'nav',
    { class: 'crumbs', 'aria-label': 'Breadcrumbs' },
    h('a', { href: '/' }, 'Runs'),
    h('span', null, '›'),
    h('a', { href: `/?workflow=${encodeURIComponent(exec.workflowId)}` }, exec.workflowId),
    exec.parent
      ? [
          h('span', null, '›'),
          h(
            'a',
            { href: runHref(exec.parent.executionId, { node: exec.parent.node }), class: 'mono' },
            `${shortId(exec.parent.executionId)} ${exec.parent.node}`,
          ),
        ]
      : null,
  );
}

/** @param {import('./model.js').RunModel} model */
function liveState(model) {
  if (model.at !== null) return h('span', { class: 'pill wait' }, `as it was at event ${number(model.at)}`);
  if (model.stream === 'gone') return h('span', { class: 'pill bad' }, 'removed from the server');
  if (ended(model.exec.status)) return null;
  if (model.stream === 'live') return h('span', { class: 'pill live' }, 'live');
  return model.stream === 'lost' ? h('span', { class: 'pill wait' }, 'reconnecting') : null;
}
customElements.define('w-run-head', RunHead);
