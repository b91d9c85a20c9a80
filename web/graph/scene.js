// A graph with its places, as the server packs it, and an index that finds what is at a point or
// inside a rectangle. Knows nothing of statuses and nothing of the canvas.
import { basePath } from './body.js';

/**
 * @typedef {object} Packed what `GET …/layout` answers
 * @property {string} [title]
 * @property {number} width
 * @property {number} height
 * @property {number} total
 * @property {string[]} kinds
 * @property {{ id: string[], label: string[], detail: string[], kind: number[], index: number[], count: number[], x: number[], y: number[], w: number[], h: number[], frame: number[] }} nodes
 * @property {{ from: number[], to: number[], kind: number[], index: number[], label: Record<string, string>, via: Record<string, number[]>, members?: Record<string, number[][]> }} edges
 * @property {{ node: number, x: number, y: number, w: number, h: number, frame: number }[]} frames
 * @property {Record<string, number[][]>} members
 * @property {string[]} [ids]
 */

const CELL = 256;
/** How many groups and loops the server draws opened. */
const MOST_OPEN = 8;

/** Opens a box or closes it; the one that was opened first makes way. @param {Set<string>} open @param {string} path */
export function toggleOpen(open, path) {
  if (!open.delete(path)) open.add(path);
  for (const first of [...open].slice(0, -MOST_OPEN)) open.delete(first);
}

/** The boxes that an address names, as many as can be open. @param {string[]} paths */
export const openBoxes = (paths) => new Set(paths.slice(-MOST_OPEN));

export class Scene {
  /** @param {Packed} packed */
  constructor(packed) {
    this.packed = packed;
    const { x, y, w, h, id } = packed.nodes;
    this.count = id.length;
    this.x = Float64Array.from(x);
    this.y = Float64Array.from(y);
    this.w = Float64Array.from(w);
    this.h = Float64Array.from(h);
    this.width = packed.width;
    this.height = packed.height;
    /** @type {Map<string, number>} */
    this.byId = new Map();
    for (let i = 0; i < id.length; i++) this.byId.set(id[i], i);
    /** @type {{ ids: string[] | undefined, boxes: Map<string, number> } | null} */
    this.grouped = null;
    /** Boxes whose body is drawn. */
    this.opened = new Set(packed.frames.map((frame) => frame.node));
    /** @type {Map<number, number[]>} */
    this.cells = new Map();
    for (let i = 0; i < this.count; i++)
      this.each(this.x[i], this.y[i], this.x[i] + this.w[i], this.y[i] + this.h[i], (cell) => cell.push(i));
    /** @type {number[][]} */
    this.out = Array.from({ length: this.count }, () => []);
    /** @type {number[][]} */
    this.into = Array.from({ length: this.count }, () => []);
    packed.edges.from.forEach((from, e) => {
      this.out[from].push(e);
      this.into[packed.edges.to[e]].push(e);
    });
  }

  /** @param {number} i */
  id(i) {
    return this.packed.nodes.id[i];
  }

  /** @param {number} i */
  kind(i) {
    return this.packed.kinds[this.packed.nodes.kind[i]] ?? 'action';
  }

  /** The box that shows the node at a path: its own, or that of the group or loop that holds it; -1 without one. @param {string} path */
  holder(path) {
    for (let at = path; at; at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) {
      const box = this.byId.get(at) ?? this.groups().get(at);
      if (box !== undefined) return box;
    }
    return -1;
  }

  /** By number, the paths of the nodes: of all, where they are known, or of those that are drawn. @returns {string[]} */
  paths() {
    if (this.packed.ids) return this.packed.ids;
    /** @type {string[]} */
    const paths = [];
    this.packed.nodes.index.forEach((number, i) => (paths[number] = this.id(i)));
    return paths;
  }

  /** By the path of a node inside a group, the box of the group; of those whose paths are known. */
  groups() {
    const { ids, members } = this.packed;
    if (this.grouped && this.grouped.ids === ids) return this.grouped.boxes;
    /** @type {Map<string, number>} */
    const boxes = new Map();
    for (const [box, parts] of Object.entries(ids ? members : {}))
      for (const [first, count, step] of parts) for (let n = 0; n < count; n++) boxes.set(ids?.[first + n * step] ?? '', Number(box));
    this.grouped = { ids, boxes };
    return boxes;
  }

  /** What the node at a path is, if it has a box of its own. @param {string} path */
  kindOf(path) {
    const i = this.byId.get(basePath(path));
    return i === undefined || this.packed.nodes.count[i] > 1 ? null : this.kind(i);
  }

  /** What the node at a path does, in a word. @param {string} path */
  detailOf(path) {
    return this.packed.nodes.detail[this.byId.get(basePath(path)) ?? -1] ?? '';
  }

  /** Whether a box stands for more than what is drawn. @param {number} i */
  folds(i) {
    const kind = this.kind(i);
    return this.packed.nodes.count[i] > 1 || kind === 'forEach' || kind === 'while' || kind === 'retryUntil';
  }

  /** @param {number} left @param {number} top @param {number} right @param {number} bottom @param {(cell: number[]) => void} work */
  each(left, top, right, bottom, work) {
    for (let cx = Math.floor(left / CELL); cx <= Math.floor(right / CELL); cx++) {
      for (let cy = Math.floor(top / CELL); cy <= Math.floor(bottom / CELL); cy++) {
        const key = cx * 1_000_003 + cy;
        let cell = this.cells.get(key);
        if (!cell) this.cells.set(key, (cell = []));
        work(cell);
      }
    }
  }

  /** The innermost box at a point, or -1. @param {number} px @param {number} py */
  at(px, py) {
    let found = -1;
    const cell = this.cells.get(Math.floor(px / CELL) * 1_000_003 + Math.floor(py / CELL));
    for (const i of cell ?? []) {
      if (px < this.x[i] || py < this.y[i] || px > this.x[i] + this.w[i] || py > this.y[i] + this.h[i]) continue;
      if (found < 0 || this.w[i] * this.h[i] < this.w[found] * this.h[found]) found = i;
    }
    return found;
  }

  /** Boxes inside a rectangle, the ones that hold others first. @param {number} left @param {number} top @param {number} right @param {number} bottom */
  within(left, top, right, bottom) {
    const all = left <= 0 && top <= 0 && right >= this.width && bottom >= this.height;
    if (all) return null;
    /** @type {Set<number>} */
    const seen = new Set();
    const cells = ((right - left) / CELL + 1) * ((bottom - top) / CELL + 1);
    if (cells > this.cells.size) {
      for (let i = 0; i < this.count; i++)
        if (this.x[i] < right && this.y[i] < bottom && this.x[i] + this.w[i] > left && this.y[i] + this.h[i] > top) seen.add(i);
    } else {
      for (let cx = Math.floor(left / CELL); cx <= Math.floor(right / CELL); cx++) {
        for (let cy = Math.floor(top / CELL); cy <= Math.floor(bottom / CELL); cy++)
          for (const i of this.cells.get(cx * 1_000_003 + cy) ?? []) seen.add(i);
      }
    }
    return [...seen].sort((a, b) => a - b);
  }

  /** The nearest box in a direction, for the keyboard. @param {number} from @param {number} dx @param {number} dy */
  neighbour(from, dx, dy) {
    const links =
      dy > 0 ? this.out[from].map((e) => this.packed.edges.to[e]) : dy < 0 ? this.into[from].map((e) => this.packed.edges.from[e]) : [];
    const pool = links.length ? links : null;
    let best = -1;
    let least = Infinity;
    const cx = this.x[from] + this.w[from] / 2;
    const cy = this.y[from] + this.h[from] / 2;
    const weigh = (/** @type {number} */ i) => {
      if (i === from) return;
      const ox = this.x[i] + this.w[i] / 2 - cx;
      const oy = this.y[i] + this.h[i] / 2 - cy;
      const along = ox * dx + oy * dy;
      if (along <= 0) return;
      const cost = along + Math.abs(ox * dy + oy * dx) * 3;
      if (cost < least) {
        least = cost;
        best = i;
      }
    };
    if (pool) for (const i of pool) weigh(i);
    else for (let i = 0; i < this.count; i++) weigh(i);
    return best;
  }
}
