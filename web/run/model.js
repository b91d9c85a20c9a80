// A run as the page knows it: the snapshot, the statuses by node, and the events that change them
// while it executes. Views listen; this knows none of them.
import { get, getIfAny, runPath, workflowPath } from '../lib/api.js';
import { eachFrame } from '../lib/dom.js';
import { follow } from '../lib/stream.js';
import { ended } from '../lib/status.js';
import { getToken } from '../lib/session.js';
import { layoutDraft } from '../graph/draft.js';
import { Scene } from '../graph/scene.js';
import { makeMarks } from './marks.js';

/** @typedef {{ status: string, attempts: number, startedAt: string | null, endedAt: string | null, name?: string | null, kind?: string, actionType?: string | null, error?: any, child?: string, signal?: string, due?: string, iterations?: any, counts?: any, blockedBy?: string[], handled?: boolean | null }} NodeState */

/** @type {Record<string, string>} */
const BECOMES = {
  NodeStarted: 'Running', NodeSucceeded: 'Succeeded', NodeFailed: 'Failed', NodeRetryScheduled: 'Waiting', NodeSkipped: 'Skipped',
  NodeBlocked: 'Blocked', NodeCancelled: 'Cancelled', NodeWaiting: 'Waiting', NodeReattempted: 'Pending', NodeSetByHand: 'Succeeded',
};

/** The path of a node without its iterations. @param {string} path */
export const basePath = (path) => path.replace(/\[\d+\]/g, '');

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
    /** @type {any[]} */
    this.drawnEdges = [];
    /** @type {Set<string>} */
    this.open = new Set();
    /** Position of the last known event. */
    this.position = 0;
    /** @type {number | null} */
    this.at = null;
    /** @type {'live' | 'ended' | 'lost' | 'none'} */
    this.stream = 'none';
    this.liveEvents = /** @type {any[]} */ ([]);
    this.tell = eachFrame(() => this.flush());
    this.pending = new Set(/** @type {string[]} */ ([]));
    this.staleAt = 0;
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

  async load() {
    const [statuses, exec] = await Promise.all([getIfAny(`${runPath(this.id)}/statuses`, this.signal), get(runPath(this.id), this.signal)]);
    this.id = exec.executionId;
    this.statuses = statuses;
    this.position = statuses?.position ?? statuses?.sequence ?? 0;
    this.take(exec);
    if (!ended(exec.status) && this.at === null) this.listen();
    await this.loadLayout();
  }

  /** @param {any} exec */
  take(exec) {
    this.exec = exec;
    this.nodes = new Map(Object.entries(exec.nodes ?? {}));
    this.mark('run');
    this.mark('nodes');
  }

  async loadLayout() {
    const open = [...this.open].map((path) => `open=${encodeURIComponent(path)}`).join('&');
    const [packed, drawn] = await Promise.all([
      getIfAny(`${runPath(this.id)}/layout${open ? `?${open}` : ''}`, this.signal),
      this.exec.counts && sum(this.exec.counts) < 3000 ? getIfAny(`${runPath(this.id)}/graph`, this.signal) : null,
    ]);
    this.drawnEdges = drawn?.edges ?? [];
    if (packed?.nodes) this.scene = new Scene(packed);
    else this.scene = new Scene(layoutDraft(await this.loadDefinition(drawn), this.open));
    this.mark('layout');
  }

  /** The definition of the run's version; of a dynamic graph, its nodes alone. @param {any} [drawn] */
  async loadDefinition(drawn) {
    if (this.definition) return this.definition;
    if (this.exec.version) this.definition = await getIfAny(`${workflowPath(this.exec.workflowId)}?version=${this.exec.version}`, this.signal);
    if (!this.definition && drawn) {
      this.definition = { id: this.exec.workflowId, nodes: drawn.nodes.map((/** @type {any} */ node) => ({
        id: node.id, name: node.name, actionType: node.kind,
        edges: drawn.edges.filter((/** @type {any} */ e) => e.from === node.id).map((/** @type {any} */ e) => ({ targetNode: e.to, when: e.when, condition: e.label })),
      })) };
    }
    return this.definition;
  }

  /** @param {string} path */
  toggle(path) {
    if (!this.open.delete(path)) this.open.add(path);
    void this.loadLayout().catch(() => this.open.delete(path));
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
    if (this.liveEvents.length > 6000) this.liveEvents.splice(0, 3000);
    this.mark('events');
    if (this.at !== null) return;
    if (event.node && BECOMES[event.kind]) this.change(event);
    else if (event.node && event.kind.startsWith('Iteration')) this.iterate(event);
    else if (event.node && event.kind === 'LoopExpanded') this.patch(event.node, { iterations: { total: event.data.count, started: 0, running: 0, failed: 0 } });
    else if (event.node && event.kind === 'ChildStarted') this.patch(event.node, { child: event.data.executionId });
    else if (event.kind.startsWith('Run') || event.kind.startsWith('Compensation') || event.kind.startsWith('Graph')) this.runEvent(event);
    this.soonReload();
  }

  /** @param {any} event */
  change(event) {
    const before = this.nodes.get(event.node);
    if (before?.startedAt && event.kind === 'NodeStarted' && before.attempts > (event.attempt ?? 0)) return;
    const status = BECOMES[event.kind];
    /** @type {Partial<NodeState>} */
    const change = { status };
    if (event.attempt) change.attempts = event.attempt;
    if (event.kind === 'NodeStarted' && (event.attempt ?? 1) === 1) change.startedAt = event.at;
    if (['Succeeded', 'Failed', 'Cancelled', 'Skipped', 'Blocked'].includes(status)) change.endedAt = event.at;
    if (event.data?.error) change.error = event.data.error;
    if (event.data?.signal) change.signal = event.data.signal;
    this.patch(event.node, change);
  }

  /** @param {any} event */
  iterate(event) {
    const loop = this.nodes.get(event.node)?.iterations;
    if (!loop) return;
    const started = event.kind === 'IterationStarted';
    this.patch(event.node, { iterations: { ...loop, started: loop.started + (started ? 1 : 0), running: Math.max(0, loop.running + (started ? 1 : -1)), failed: loop.failed + (!started && event.data?.status === 'Failed' ? 1 : 0) } });
  }

  /** @param {string} path @param {Partial<NodeState>} change */
  patch(path, change) {
    const before = this.nodes.get(path) ?? { status: 'Pending', attempts: 0, startedAt: null, endedAt: null };
    this.nodes.set(path, { ...before, ...change });
    this.mark('nodes');
  }

  /** @param {any} event */
  runEvent(event) {
    const next = { RunStarted: 'Running', RunPaused: 'Paused', RunResumed: 'Running' }[/** @type {string} */ (event.kind)] ?? (event.kind === 'RunFinished' ? event.data?.status : null);
    if (next && this.exec) {
      this.exec = { ...this.exec, status: next, endedAt: event.kind === 'RunFinished' ? event.at : this.exec.endedAt };
      this.mark('run');
    }
    this.staleAt = 0;
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
    if (this.at !== null || this.signal.aborted) return;
    try {
      const position = this.position;
      const exec = await get(runPath(this.id), this.signal);
      const late = this.liveEvents.filter((event) => event.position > position && event.node && BECOMES[event.kind]);
      this.take(exec);
      for (const event of late) this.change(event);
      if (this.scene && sum(exec.counts) < 3000) {
        const drawn = await getIfAny(`${runPath(this.id)}/graph`, this.signal);
        this.drawnEdges = drawn?.edges ?? this.drawnEdges;
        this.mark('nodes');
      }
      if (!ended(exec.status) && (this.stream === 'ended' || this.stream === 'none')) this.listen();
    } catch {
      // The stream reconnects, and its next event asks again.
    }
  }

  /** Shows the run as it was after an event; null follows it again. @param {number | null} at */
  async travel(at) {
    this.at = at;
    if (at === null) {
      await this.reload();
      if (!ended(this.exec.status)) this.listen();
      return;
    }
    const exec = await get(`${runPath(this.id)}?at=${at}`, this.signal);
    if (this.at !== at) return;
    this.drawnEdges = [];
    this.take(exec);
  }

  stop() {
    clearTimeout(this.timer);
    this.unlisten?.();
  }
}

/** @param {Record<string, number>} counts */
function sum(counts) {
  return Object.values(counts ?? {}).reduce((a, b) => a + b, 0);
}
