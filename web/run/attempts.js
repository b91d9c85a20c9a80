// When each attempt of a node began and ended, for the rows of the timeline that are seen: asked for
// one node at a time, and only of nodes that were tried several times.
import { getIfAny, runPath } from '../lib/api.js';
import { getToken } from '../lib/session.js';

/** How many nodes are remembered. */
const KEPT = 500;

/** @typedef {{ from: number, to: number | null, failed: boolean }} Attempt */

export class AttemptTimes {
  /** @param {import('./model.js').RunModel} model @param {() => void} arrived */
  constructor(model, arrived) {
    this.model = model;
    this.arrived = arrived;
    /** By path, what is known and of which state of the node. @type {Map<string, { key: string, attempts: Attempt[] }>} */
    this.known = new Map();
    /** Those of the rows that are seen now. @type {Map<string, string>} */
    this.wanted = new Map();
    this.asks = false;
  }

  /** What is known of a node now; what is missing is asked for. @param {string} path @param {import('./model.js').NodeState} node @returns {Attempt[] | null} */
  of(path, node) {
    if (node.attempts < 2) return null;
    const key = `${node.attempts} ${node.status} ${this.model.at}`;
    const known = this.known.get(path);
    if (known?.key !== key) this.wanted.set(path, key);
    if (this.wanted.size) void this.ask();
    // Of another moment nothing is known.
    return known && known.key.split(' ')[2] === String(this.model.at) ? known.attempts : null;
  }

  async ask() {
    if (this.asks) return;
    this.asks = true;
    // The rest of the rows that are drawn now adds itself first.
    await Promise.resolve();
    for (const [path, key] of this.wanted) {
      if (this.model.signal.aborted) return;
      this.wanted.delete(path);
      const attempts = await this.fetch(path).catch(() => null);
      this.known.delete(path);
      this.known.set(path, { key, attempts: attempts ?? [] });
      for (const old of this.known.keys()) if (this.known.size > KEPT) this.known.delete(old);
      this.arrived();
      // A node that is tried again and again changes faster than anybody reads.
      await new Promise((done) => setTimeout(done, getToken() ? 2000 : 50));
    }
    this.asks = false;
  }

  /** @param {string} path @returns {Promise<Attempt[] | null>} */
  async fetch(path) {
    const { model } = this;
    const place = `${runPath(model.id)}/nodes/${path.split('/').map(encodeURIComponent).join('/')}`;
    const node = await getIfAny(model.at === null ? place : `${place}?at=${model.at}`, model.signal);
    const own = node?.actions?.filter((/** @type {any} */ action) => !action.compensation && action.startedAt);
    return own?.map((/** @type {any} */ { startedAt, endedAt, status }) => ({
      from: Date.parse(startedAt),
      to: endedAt ? Date.parse(endedAt) : null,
      failed: status === 'Failed',
    }));
  }
}

/**
 * The parts of a bar: attempts, and the waits between them and after the last. One that would not be
 * seen beside the one before it is left out.
 * @param {Attempt[]} attempts @param {number} end @param {number} least the shortest time that is seen
 */
export function partsOf(attempts, end, least) {
  /** @type {{ kind: 'attempt' | 'wait', from: number, to: number, failed: boolean }[]} */
  const parts = [];
  let until = -Infinity;
  for (const { from, to, failed } of [...attempts].sort((a, b) => a.from - b.from)) {
    if (parts.length && from - until < least && (to ?? end) - until < least) continue;
    if (parts.length && from > until) parts.push({ kind: 'wait', from: until, to: from, failed: false });
    until = to ?? end;
    parts.push({ kind: 'attempt', from, to: until, failed });
  }
  if (parts.length && until < end) parts.push({ kind: 'wait', from: until, to: end, failed: false });
  return parts;
}
