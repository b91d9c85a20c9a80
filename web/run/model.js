// A run as the page knows it: the snapshot, the statuses by node, and the events that change them
// while it executes. Views listen; this knows none of them.
import { ApiError, get, getIfAny, rememberedAnswer, request, runPath, workflowPath } from '../lib/api.js';
import { eachFrame, painted } from '../lib/dom.js';
import { follow } from '../lib/stream.js';
import { ended } from '../lib/status.js';
import { getToken } from '../lib/session.js';
import { STATUSES } from '../graph/glyph.js';
import { Scene, toggleOpen } from '../graph/scene.js';
import { makeMarks } from './marks.js';
import { eventAt, within } from './moment.js';
import { BECOMES, changeOf, iterationsAfter, runStatusAfter, stateAt, withoutValues } from './change.js';

/** @typedef {{ status: string, attempts: number, startedAt: string | null, endedAt: string | null, name?: string | null, kind?: string, actionType?: string | null, error?: any, child?: string, signal?: string, due?: string, iterations?: any, counts?: any, compensation?: any, blockedBy?: string[], handled?: boolean | null }} NodeState */

/** The letters of statuses, in the order of STATUSES. */
const LETTERS = 'PQRWSFKBC';
/** Runs of more nodes, more events or larger values are read without their nodes. */
const LARGE = 1500;
const EVENTFUL = 20_000;
const HEAVY = 1_000_000;
/** How many nodes inside loops and events are remembered: a page that is left open must not grow. */
const INSIDE = 3000;
const LIVE = 4000;
/** Graphs of more nodes name those inside groups on demand. */
const MANY = 20_000;

export class RunModel extends EventTarget {
  /** @param {string} id @param {AbortSignal} signal */
  constructor(id, signal) {
    super();
    this.id = id;
    this.signal = signal;
    /** @type {any} */
    this.exec = null;
    /** @type {Map<string, NodeState>} */
    this.nodes = new Map();
    /** @type {any} */
    this.definition = null;
    /** @type {any} */
    this.statuses = null;
    /** @type {Scene | null} */
    this.scene = null;
    /** By number, the place of its status in STATUSES. */
    this.letters = new Uint8Array();
    /** @type {Map<string, number>} */
    this.numbers = new Map();
    /** @type {{ definition: string, paths: string[] } | null} */
    this.ids = null;
    /** @type {Set<string>} */
    this.open = new Set();
    /** Position of the last known event. */
    this.position = 0;
    /** @type {number | null} */
    this.at = null;
    /** The event at that position. @type {any} */
    this.moment = null;
    /** @type {'live' | 'ended' | 'lost' | 'gone' | 'none'} */
    this.stream = 'none';
    this.heavy = false;
    this.liveEvents = /** @type {any[]} */ ([]);
    this.tell = eachFrame(() => this.flush());
    this.pending = new Set(/** @type {string[]} */ ([]));
  }

  /** @param {string} what */
  mark(what) {
    this.pending.add(what);
    this.tell();
  }

  flush() {
    const all = [...this.pending];
    this.pending.clear();
    for (const what of all) this.dispatchEvent(new Event(what));
  }

  /** The graph and its statuses first, at once, which are small whatever the run is; then the rest. */
  async load() {
    const known = [rememberedAnswer('statuses') ?? this.fetchStatuses(), rememberedAnswer('layout') ?? this.fetchLayout()];
    const [statuses, packed] = await Promise.all(known);
    this.at = within(this.at, statuses);
    this.scene = this.sceneOf(packed);
    this.id = statuses.executionId;
    this.takeStatuses(statuses);
    this.position = statuses.sequence;
    if ((this.exec = rememberedAnswer('run'))) this.take({ ...this.exec, isPartial: true });
    this.mark('layout');
    this.flush();
    if (this.exec) await painted();
    this.take(await this.fetchRun());
    if (!ended(this.exec.status) && this.at === null) this.listen();
    if (packed.total <= MANY && Object.keys(packed.members).length) await this.loadIds();
  }

  /** @returns {Promise<any>} */
  fetchStatuses() {
    const query = this.at !== null ? `?at=${this.at}` : this.open.size ? '?expand=true' : '';
    return get(`${runPath(this.id)}/statuses${query}`, this.signal);
  }

  /** @returns {Promise<any>} */
  fetchLayout() {
    const query = new URLSearchParams();
    for (const path of this.open) query.append('open', path);
    return get(`${runPath(this.id)}/layout?${query}`, this.signal);
  }

  /** The paths of a definition are known once for all its layouts. @param {any} packed */
  sceneOf(packed) {
    if (this.ids?.definition === packed.definition) packed.ids ??= this.ids?.paths;
    return new Scene(packed);
  }

  /** The paths of nodes inside groups and closed loops: asked for when they are needed, since they can be many. */
  async loadIds() {
    if (!this.scene || this.scene.packed.ids || this.scene.count >= this.scene.packed.total) return;
    const { ids, definition } = await get(`${runPath(this.id)}/layout?ids=true`, this.signal);
    this.ids = { definition, paths: ids };
    this.scene.packed.ids = ids;
    this.takeStatuses(await this.fetchStatuses());
    // Statuses say less of a node than the run that was read before.
    if (this.exec) this.take(this.exec);
  }

  /** A large run is read without its nodes: a node's panel asks for the one that is chosen. */
  async fetchRun() {
    const query = new URLSearchParams();
    if (this.at !== null) query.set('at', String(this.at));
    this.moment = this.at === null ? null : await eventAt(this.id, this.at, this.signal).catch(() => null);
    if (this.heavy || (this.statuses?.nodes.length ?? 0) > LARGE || this.position > EVENTFUL) query.set('nodes', 'none');
    const text = await (await request('GET', `${runPath(this.id)}?${query}`, { signal: this.signal })).text();
    this.heavy = text.length > HEAVY;
    return JSON.parse(text);
  }

  /** @param {any} exec */
  take(exec) {
    this.exec = exec;
    for (const [path, node] of Object.entries(exec.nodes ?? {})) this.nodes.set(path, withoutValues(node, this.nodes.get(path)));
    this.mark('run');
    this.mark('nodes');
  }

  /** @param {any} statuses */
  takeStatuses(statuses) {
    this.statuses = statuses;
    this.letters = Uint8Array.from(statuses.nodes, (/** @type {string} */ letter) => LETTERS.indexOf(letter.toUpperCase()));
    const paths = this.scene?.paths() ?? [];
    const created = Date.parse(statuses.createdAt);
    this.nodes = new Map([...this.nodes].filter(([path]) => path.includes('[')));
    this.numbers = new Map();
    for (let n = 0; n < statuses.nodes.length && n < paths.length; n++) {
      if (paths[n] === undefined) continue;
      this.numbers.set(paths[n], n);
      const box = this.scene?.byId.get(paths[n]);
      const single = box !== undefined && this.scene?.packed.nodes.count[box] === 1;
      this.nodes.set(paths[n], {
        ...stateAt(statuses, n, created),
        status: STATUSES[this.letters[n]],
        name: single ? this.scene?.packed.nodes.label[box] : null,
      });
    }
    this.mark('nodes');
  }

  async loadLayout() {
    const [packed, statuses] = await Promise.all([this.fetchLayout(), this.fetchStatuses()]);
    this.scene = this.sceneOf(packed);
    this.takeStatuses(statuses);
    if (this.exec) this.take(this.exec);
    this.mark('layout');
  }

  /** The definition of the run's version; a dynamic graph has none. */
  async loadDefinition() {
    if (!this.definition && this.exec.version)
      this.definition = await getIfAny(`${workflowPath(this.exec.workflowId)}?version=${this.exec.version}`, this.signal);
    return this.definition;
  }

  /** Opens a box or closes it. @param {string} path */
  async toggle(path) {
    toggleOpen(this.open, path);
    await this.loadLayout().catch(() => this.open.delete(path));
  }

  marks() {
    return this.scene ? makeMarks(this, this.scene) : null;
  }

  listen() {
    this.unlisten?.();
    const stop = follow(`${runPath(this.id)}/events`, this.position, {
      event: (event) => this.apply(event),
      state: (state) => {
        this.stream = state;
        this.mark('stream');
        if (state === 'ended') void this.reload();
      },
    });
    this.unlisten = stop;
  }

  /** @param {any} event */
  apply(event) {
    this.position = Math.max(this.position, event.position);
    this.liveEvents.push(event);
    // The log asks the server for older ones; a page that is left open must not grow.
    if (this.liveEvents.length > LIVE) this.liveEvents.splice(0, LIVE / 2);
    this.mark('events');
    if (this.at !== null) return;
    if (event.node && BECOMES[event.kind]) this.change(event);
    else if (event.node && event.kind.startsWith('Iteration'))
      this.patch(event.node, { iterations: iterationsAfter(event, this.nodes.get(event.node)?.iterations) });
    else if (event.node && event.kind === 'LoopExpanded')
      this.patch(event.node, { iterations: { total: event.data.count, started: 0, running: 0, failed: 0 } });
    else if (event.node && event.kind === 'ChildStarted') this.patch(event.node, { child: event.data.executionId });
    else if (event.kind.startsWith('Run') || event.kind.startsWith('Compensation') || event.kind.startsWith('Graph')) this.runEvent(event);
    this.soonReload();
  }

  /** @param {any} event */
  change(event) {
    const change = changeOf(event, this.nodes.get(event.node));
    if (change) this.patch(event.node, change);
  }

  /** @param {string} path @param {Partial<NodeState>} change */
  patch(path, change) {
    const before = this.nodes.get(path) ?? { status: 'Pending', attempts: 0, startedAt: null, endedAt: null };
    this.nodes.set(path, { ...before, ...change });
    let surplus = this.nodes.size > this.numbers.size + INSIDE ? INSIDE / 2 : 0;
    if (surplus) for (const old of this.nodes.keys()) if (old.includes('[') && surplus-- > 0) this.nodes.delete(old);
    const number = this.numbers.get(path);
    if (number !== undefined && change.status) this.letters[number] = STATUSES.indexOf(change.status);
    this.mark('nodes');
  }

  /** @param {any} event */
  runEvent(event) {
    const next = runStatusAfter(event);
    if (next && this.exec) {
      this.exec = { ...this.exec, status: next, endedAt: event.kind === 'RunFinished' ? event.at : this.exec.endedAt };
      this.mark('run');
    }
  }

  /** Events say what changed, not all of it: values come with the next snapshot. */
  soonReload() {
    if (this.timer) return;
    const wait = getToken() ? 8000 : Math.min(4000, 600 + this.nodes.size / 2);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.reload();
    }, wait);
  }

  async reload() {
    if (this.at !== null || this.signal.aborted || !this.exec) return;
    try {
      const statuses = await this.fetchStatuses();
      if (statuses.definition !== this.statuses.definition) {
        this.scene = this.sceneOf(await this.fetchLayout());
        this.mark('layout');
      }
      this.takeStatuses(statuses);
      this.take(await this.fetchRun());
      for (const event of this.liveEvents) if (event.position > statuses.sequence && event.node && BECOMES[event.kind]) this.change(event);
      if (!ended(this.exec.status) && (this.stream === 'ended' || this.stream === 'none')) this.listen();
    } catch (error) {
      // The stream reconnects, and its next event asks again; a run that was removed has none.
      if (!(error instanceof ApiError) || error.status !== 404) return;
      this.stream = 'gone';
      this.mark('stream');
    }
  }

  /** Shows the run as it was after an event; null follows it again. @param {number | null} at */
  async travel(at) {
    this.at = at;
    const statuses = await this.fetchStatuses();
    if (this.at !== at) return;
    this.at = at = within(at, statuses);
    const exec = await this.fetchRun();
    if (this.at !== at) return;
    this.nodes.clear();
    this.takeStatuses(statuses);
    this.take(exec);
    this.mark('travel');
    if (at === null && !ended(exec.status)) this.listen();
  }

  stop() {
    clearTimeout(this.timer);
    this.unlisten?.();
  }
}
