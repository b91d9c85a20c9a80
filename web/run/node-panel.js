// One node: status, why it waits, its error, attempts, values and ancestry, and what can be done.
import { Parts, append, arrange, fill, h, throttle } from '../lib/dom.js';
import { get, getIfAny, runPath } from '../lib/api.js';
import { badge, ended } from '../lib/status.js';
import { duration, number, plural } from '../lib/text.js';
import { failure, loading } from '../lib/view.js';
import { withParams } from '../lib/router.js';
import { copyButton, runLink, time } from '../ui/bits.js';
import { longText, valueBlock } from '../ui/value.js';
import { actionButtons } from '../act/buttons.js';
import { basePath } from '../graph/body.js';
import { ancestry, attempts, compensationBlock, errorBlock, fact, memberList } from './node-blocks.js';
import { FailedIterations } from './failed.js';
import { membersOf } from './marks.js';
import { clockOf } from './moment.js';

export class NodePanel extends HTMLElement {
  constructor() {
    super();
    this.className = 'node-panel';
    /** @type {import('./model.js').RunModel | null} */
    this.model = null;
    /** @type {string | null} */
    this.path = null;
    this.shown = '';
    this.single = false;
    this.asked = 0;
    this.parts = new Parts();
    this.listed = { shown: 0 };
    this.tried = { shown: 0 };
    /** @type {FailedIterations | null} */
    this.failing = null;
  }

  /** @param {import('./model.js').RunModel} model */
  attach(model) {
    this.model = model;
    // A loop can change thousands of times a second: what is read follows at a reader's pace.
    const soon = throttle(500, () => this.refresh());
    model.addEventListener('nodes', () => (this.shown === '' ? this.refresh() : soon()));
    model.addEventListener('run', () => this.refresh());
  }

  /** `single` means the first member of a group, not the group. @param {string | null} path @param {boolean} [single] */
  select(path, single = false) {
    if (path === this.path && single === this.single) return;
    this.path = path;
    this.single = single;
    this.listed = { shown: 0 };
    this.tried = { shown: 0 };
    this.shown = '';
    this.refresh();
  }

  refresh() {
    const { model, path } = this;
    if (!model?.exec) return;
    if (path === null) return this.drawRun(model);
    const node = model.nodes.get(path);
    const key = JSON.stringify([path, node, model.at, model.exec.status]);
    if (key === this.shown) return;
    const first = this.shown === '';
    this.shown = key;
    const instances = [...model.nodes.keys()].filter((other) => other !== path && basePath(other) === path);
    const box = model.scene?.byId.get(path);
    if (instances.length && !node) return this.drawMembers(model, path, instances);
    if (model.scene && !this.single && box !== undefined && model.scene.packed.nodes.count[box] > 1)
      return void this.drawGroup(model, path, box);
    if (first) loading(this);
    void this.load(model, path);
  }

  /** @param {import('./model.js').RunModel} model @param {string} path */
  async load(model, path) {
    const mine = ++this.asked;
    try {
      const escaped = path.split('/').map(encodeURIComponent).join('/');
      const { at } = model;
      const place = `${runPath(model.id)}/nodes/${escaped}`;
      const node = at === null ? await get(place, model.signal) : await getIfAny(`${place}?at=${at}`, model.signal);
      if (!node) {
        if (mine === this.asked) fill(this, this.head(path, null), h('p', { class: 'muted' }, `Not there yet at event ${number(at ?? 0)}.`));
        return;
      }
      const open = !['Succeeded', 'Failed', 'Skipped', 'Cancelled'].includes(node.status) && at === null;
      const why = open ? await getIfAny(`${runPath(model.id)}/why?node=${encodeURIComponent(path)}`, model.signal) : null;
      if (mine === this.asked) this.draw(model, path, node, why);
    } catch (error) {
      if (mine === this.asked && !model.signal.aborted) fill(this, this.head(path, null), failure(error));
    }
  }

  /** @param {string} path @param {any} node */
  head(path, node) {
    const parts = path.split('/');
    return h(
      'div',
      { class: 'node-head' },
      h(
        'nav',
        { class: 'crumbs', 'aria-label': 'Where' },
        h('a', { href: withParams({ node: null }) }, 'run'),
        parts.map((part, i) => [
          h('span', null, '›'),
          i === parts.length - 1
            ? h('span', { class: 'mono' }, part)
            : h(
                'a',
                {
                  class: 'mono',
                  href: withParams({
                    node: parts
                      .slice(0, i + 1)
                      .join('/')
                      .replace(/\[\d+\]$/, ''),
                  }),
                },
                part,
              ),
        ]),
      ),
      h(
        'div',
        { class: 'node-title' },
        h('h2', { class: 'big' }, node?.name ?? parts.at(-1)),
        node ? badge(node.status) : null,
        copyButton(path, 'Copy the path'),
      ),
    );
  }

  /** @param {import('./model.js').RunModel} model @param {string} path @param {any} node @param {any} why */
  draw(model, path, node, why) {
    const reason = why?.nodes?.find((/** @type {any} */ item) => item.node === path)?.reason;
    const own = (node.actions ?? []).filter((/** @type {any} */ action) => !action.compensation);
    const last = own.at(-1);
    // The log has the input of an attempt when it has ended, and a child run's from its start.
    const input = last?.parameters ?? node.input ?? null;
    const took = node.startedAt ? (node.endedAt ? Date.parse(node.endedAt) : clockOf(model)) - Date.parse(node.startedAt) : null;
    const box = /** @type {HTMLElement} */ (this);
    const scroll = box.scrollTop;
    const rest = document.createElement('div');
    append(rest, [
      reason ? h('p', { class: 'why' }, longText(reason)) : null,
      node.error ? errorBlock(node.error, model.id) : null,
      node.status === 'Blocked' && node.blockedBy?.length
        ? h(
            'p',
            { class: 'why' },
            'Blocked by ',
            node.blockedBy.map((/** @type {string} */ other) => [h('a', { class: 'mono', href: withParams({ node: other }) }, other), ' ']),
          )
        : null,
      node.compensation ? compensationBlock(node.compensation) : null,
      node.child ? h('p', null, 'Child run ', runLink(node.child)) : null,
      node.iterations ? this.loopBlock(model, path, node) : null,
      h(
        'dl',
        { class: 'facts' },
        fact('Action', node.actionType ?? node.kind),
        fact('Started', node.startedAt ? time(node.startedAt) : null),
        fact('Duration', took === null ? null : duration(took)),
        fact('Attempts', node.attempts ? number(node.attempts) : null),
        fact('Waits until', node.due ? time(node.due) : null),
        fact('Handled', node.handled === true ? 'yes, by a failure edge' : null),
        fact('Worker', last?.worker),
      ),
      own.length > 1 || own.some((/** @type {any} */ action) => action.error) ? attempts(own, 'Attempts', this.tried) : null,
      input !== null || last?.endedAt ? valueBlock('Input', input) : null,
      node.output !== null || node.status === 'Succeeded' ? valueBlock('Output', node.output) : null,
      ancestry(model, path, node),
      node.compensation ? attempts(node.actions?.filter((/** @type {any} */ action) => action.compensation) ?? [], 'Attempts to undo it') : null,
    ]);
    // A loop changes all the time: its buttons must stay where they are.
    const { status, signal } = node;
    const { exec } = model;
    arrange(this, [
      this.parts.part('head', [path, node.name, status], () => this.head(path, node)),
      model.at === null &&
        this.parts.part('actions', [path, status, signal, exec.status, exec.compensation], () => actionButtons(model, path, node) ?? h('span', { hidden: true })),
      ...rest.childNodes,
    ]);
    box.scrollTop = scroll;
  }

  /** @param {import('./model.js').RunModel} model @param {string} path @param {any} node */
  loopBlock(model, path, node) {
    const inside = [...model.nodes].filter(([other]) => other.startsWith(`${path}[`));
    return h(
      'section',
      { class: 'sect' },
      h('h3', null, 'Iterations'),
      h(
        'p',
        { class: 'muted' },
        `${number(node.iterations.started - node.iterations.running)} of ${number(node.iterations.total ?? node.iterations.started)} done, ${number(node.iterations.running)} running, ${number(node.iterations.failed)} failed`,
      ),
      this.failedIterations(model, path, node),
      memberList(inside, '', this.listed),
    );
  }

  /** Failed iterations of a loop whose instances are too many to list. @param {import('./model.js').RunModel} model @param {string} path @param {any} node */
  failedIterations(model, path, node) {
    const which = /** @type {number[]} */ (model.nodes.get(path)?.iterations?.which ?? []);
    const listed = new Set([...model.nodes.keys()].filter((other) => other.startsWith(`${path}[`)).map((other) => parseInt(other.slice(path.length + 1), 10)));
    if (which.every((n) => listed.has(n)) || node.status === 'Pending') return null;
    if (!this.failing?.isOf(path)) this.failing = new FailedIterations(model, path);
    return this.failing.show(which, node.iterations.failed);
  }

  /** @param {import('./model.js').RunModel} model @param {string} path @param {number} box */
  async drawGroup(model, path, box) {
    await model.loadIds().catch(() => {});
    if (this.path === path && model.scene) this.drawMembers(model, path, membersOf(model.scene, box));
  }

  /** @param {import('./model.js').RunModel} model @param {string} path @param {string[]} members */
  drawMembers(model, path, members) {
    const inside = /** @type {[string, any][]} */ (members.map((member) => [member, model.nodes.get(member) ?? { status: 'Pending' }]));
    fill(this, this.head(path, null), h('p', { class: 'muted' }, plural(members.length, 'node')), memberList(inside, path, this.listed));
  }

  /** Nothing is chosen: the run itself. @param {import('./model.js').RunModel} model */
  drawRun(model) {
    const { exec } = model;
    const key = model.heavy
      ? `heavy ${exec.status} ${model.at}`
      : JSON.stringify([exec.trigger, exec.vars, exec.output, exec.status, model.at]);
    if (key === this.shown) return;
    this.shown = key;
    fill(
      this,
      h('div', { class: 'node-head' }, h('h2', { class: 'big' }, 'This run')),
      h(
        'dl',
        { class: 'facts' },
        fact('Created', time(exec.createdAt)),
        fact('Started', exec.startedAt ? time(exec.startedAt) : null),
        fact('Ended', exec.endedAt ? time(exec.endedAt) : null),
        fact('Request id', h('code', null, exec.requestId)),
        fact('Correlation', h('code', null, exec.correlationId)),
        fact('Priority', String(exec.priority)),
        fact('Tenant', exec.tenantId),
        fact('Graph', exec.graph),
        fact(
          'Parent',
          exec.parent
            ? h('span', null, runLink(exec.parent.executionId, { node: exec.parent.node }), ' ', h('code', null, exec.parent.node))
            : null,
        ),
        fact('Fork of', exec.origin ? runLink(exec.origin.executionId) : null),
        fact('Compensation', exec.compensation),
      ),
      valueBlock('Trigger', exec.trigger),
      Object.keys(exec.vars ?? {}).length ? valueBlock('Variables', exec.vars) : null,
      ended(exec.status) ? valueBlock('Output', exec.output) : null,
      h('p', { class: 'muted' }, 'Choose a node in the graph, the timeline or the events to see its values.'),
    );
  }
}

customElements.define('w-node', NodePanel);
