// A simple layered layout of a definition that the server does not have yet: the editor's draft.
// Gives the same packed form as the server, which lays out everything that is published.
import { bodyOf } from './body.js';

const HEIGHT = 48;
const GAP_X = 24;
const GAP_Y = 48;
const KINDS = ['action', 'forEach', 'while', 'retryUntil', 'subworkflow', 'signal', 'delay'];

/** @param {any} node */
function kindOf(node) {
  if (node.forEach) return 1;
  if (node.while) return 2;
  if (node.retryUntil) return 3;
  if (node.subworkflow) return 4;
  if (node.waitForSignal) return 5;
  return node.delay ? 6 : 0;
}

/** @param {any} node */
export function detailOf(node) {
  if (node.subworkflow) return `runs ${node.subworkflow.workflowId}`;
  if (node.waitForSignal) return `waits for ${node.waitForSignal.name}`;
  return String(node.actionType ?? KINDS[kindOf(node)]);
}

/** Edges of a list of nodes: [from, to, kind, label]. @param {any[]} nodes @returns {[number, number, number, string][]} */
function edgesOf(nodes) {
  const places = new Map(nodes.map((node, i) => [node?.id, i]));
  /** @type {[number, number, number, string][]} */
  const edges = [];
  const add = (/** @type {any} */ from, /** @type {any} */ to, /** @type {string | undefined} */ when, label = '') => {
    const [a, b] = [places.get(from), places.get(to)];
    if (a !== undefined && b !== undefined && a !== b)
      edges.push([a, b, when === 'failure' ? 1 : when === 'always' ? 2 : 0, String(label)]);
  };
  for (const node of nodes) {
    for (const edge of list(node?.edges)) add(node.id, edge?.targetNode, edge?.when, edge?.condition);
    for (const before of list(node?.dependsOn)) add(before, node.id, 'success');
    if (node?.onFailure) add(node.id, node.onFailure, 'failure');
    for (const [value, target] of Object.entries(node?.switch?.cases ?? {})) add(node.id, target, node.switch.when, value);
    if (node?.switch?.default) add(node.id, node.switch.default, node.switch.when, 'default');
  }
  return edges;
}

/** @param {any} value @returns {any[]} */
function list(value) {
  return Array.isArray(value) ? value.filter((item) => item !== null && item !== undefined) : [];
}

/** @param {number} count @param {[number, number, number, string][]} edges */
function layersOf(count, edges) {
  const layer = new Array(count).fill(0);
  for (let round = 0; round < Math.min(count, 500); round++) {
    let changed = false;
    for (const [a, b] of edges) {
      if (layer[b] > layer[a] || layer[a] + 1 >= count) continue;
      layer[b] = layer[a] + 1;
      changed = true;
    }
    if (!changed) break;
  }
  return layer;
}

/**
 * @param {any} definition @param {Set<string>} [open] paths of loops whose body is drawn
 * @returns {import('./scene.js').Packed}
 */
export function layoutDraft(definition, open = new Set()) {
  /** @type {import('./scene.js').Packed} */
  const packed = {
    title: String(definition?.displayName ?? definition?.id ?? ''),
    width: 0,
    height: 0,
    total: 0,
    kinds: KINDS,
    nodes: { id: [], label: [], detail: [], kind: [], index: [], count: [], x: [], y: [], w: [], h: [], frame: [] },
    edges: { from: [], to: [], kind: [], index: [], label: {}, via: {} },
    frames: [],
    members: {},
  };
  const size = place(packed, list(definition?.nodes).slice(0, 2000), '', 16, 16, -1, open);
  packed.width = size.width + 32;
  packed.height = size.height + 32;
  packed.total = packed.nodes.id.length;
  return packed;
}

/**
 * @param {import('./scene.js').Packed} packed @param {any[]} nodes @param {string} inside
 * @param {number} left @param {number} top @param {number} frame @param {Set<string>} open
 */
function place(packed, nodes, inside, left, top, frame, open) {
  const edges = edgesOf(nodes);
  const layers = layersOf(nodes.length, edges);
  /** @type {number[][]} */
  const rows = [];
  layers.forEach((layer, i) => (rows[layer] ??= []).push(i));
  const paths = nodes.map((node) => (inside ? `${inside}/${node?.id}` : String(node?.id)));
  const sizes = nodes.map((node, i) => {
    const own = Math.min(
      300,
      Math.max(128, Math.max(String(node?.name ?? node?.id ?? '').length * 8, detailOf(node ?? {}).length * 6.5) + 56),
    );
    const body = bodyOf(node);
    if (!body || !open.has(paths[i])) return { w: own, h: HEIGHT };
    const probe = place(
      { ...packed, nodes: clone(packed.nodes), edges: { from: [], to: [], kind: [], index: [], label: {}, via: {} }, frames: [] },
      list(body.nodes),
      paths[i],
      0,
      0,
      0,
      open,
    );
    return { w: Math.max(own, probe.width + 32), h: HEIGHT + probe.height + 16 };
  });
  order(rows, edges, layers);
  const widths = rows.map((row) => row.reduce((sum, i) => sum + sizes[i].w + GAP_X, -GAP_X));
  const width = Math.max(128, ...widths);
  const first = packed.nodes.id.length;
  /** @type {number[]} */
  const placeOf = new Array(nodes.length);
  let y = top;
  let next = first;
  rows.forEach((row, r) => {
    let x = left + (width - widths[r]) / 2;
    for (const i of row) {
      placeOf[i] = next++;
      push(packed, nodes[i] ?? {}, paths[i], { x, y, ...sizes[i] }, frame);
      x += sizes[i].w + GAP_X;
    }
    y += Math.max(HEIGHT, ...row.map((i) => sizes[i].h)) + GAP_Y;
  });
  for (const [a, b, kind, label] of edges) {
    const e = packed.edges.from.push(placeOf[a]) - 1;
    packed.edges.to.push(placeOf[b]);
    packed.edges.kind.push(kind);
    packed.edges.index.push(e);
    if (label) packed.edges.label[e] = label;
  }
  nodes.forEach((node, i) => {
    const body = bodyOf(node);
    if (!body || !open.has(paths[i])) return;
    const box = placeOf[i];
    const { x, y: by, w, h } = packed.nodes;
    packed.frames.push({ node: box, x: x[box], y: by[box], w: w[box], h: h[box], frame });
    place(packed, list(body.nodes), paths[i], x[box] + 16, by[box] + HEIGHT, packed.frames.length - 1, open);
  });
  return { width, height: Math.max(0, y - top - GAP_Y) };
}

/** @param {Record<string, any[]>} nodes @returns {any} */
function clone(nodes) {
  return Object.fromEntries(Object.keys(nodes).map((key) => [key, []]));
}

/** @param {import('./scene.js').Packed} packed @param {any} node @param {string} path @param {{ x: number, y: number, w: number, h: number }} box @param {number} frame */
function push(packed, node, path, box, frame) {
  const { nodes } = packed;
  nodes.index.push(nodes.id.length);
  nodes.id.push(path);
  nodes.label.push(String(node.name ?? node.id ?? '?'));
  nodes.detail.push(detailOf(node));
  nodes.kind.push(kindOf(node));
  nodes.count.push(1);
  nodes.x.push(box.x);
  nodes.y.push(box.y);
  nodes.w.push(box.w);
  nodes.h.push(box.h);
  nodes.frame.push(frame);
}

/** Fewer crossings: rows by the mean place of what comes before. @param {number[][]} rows @param {[number, number, number, string][]} edges @param {number[]} layers */
function order(rows, edges, layers) {
  const at = new Map();
  rows.forEach((row) => row.forEach((i, p) => at.set(i, p)));
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const row of rows) {
      const weight = new Map(
        row.map((i) => {
          const near = edges
            .filter(([a, b]) => (b === i && layers[a] < layers[i]) || (a === i && layers[b] > layers[i]))
            .map(([a, b]) => at.get(b === i ? a : b) ?? 0);
          return [i, near.length ? near.reduce((s, n) => s + n, 0) / near.length : (at.get(i) ?? 0)];
        }),
      );
      row.sort((a, b) => (weight.get(a) ?? 0) - (weight.get(b) ?? 0));
      row.forEach((i, p) => at.set(i, p));
    }
  }
}
