// Paints the edges of a scene: by their state, the longest path last, labels where there is room.
import { visible } from '../lib/text.js';

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {import('./paint.js').Camera} camera @param {{ left: number, top: number, right: number, bottom: number }} seen @param {Record<string, string>} palette */
export function paintEdges(g, scene, marks, camera, seen, palette) {
  const { from, to, via, label, kind } = scene.packed.edges;
  /** @type {Path2D[]} */
  const paths = [new Path2D(), new Path2D(), new Path2D(), new Path2D(), new Path2D()];
  /** @type {number[]} */
  const labelled = [];
  const far = camera.scale < 0.28;
  for (let e = 0; e < from.length; e++) {
    const x1 = scene.x[from[e]] + scene.w[from[e]] / 2;
    const y1 = scene.y[from[e]] + scene.h[from[e]];
    const x2 = scene.x[to[e]] + scene.w[to[e]] / 2;
    const y2 = scene.y[to[e]];
    const points = via[e];
    if (!points && (Math.max(x1, x2) < seen.left || Math.min(x1, x2) > seen.right || y2 < seen.top || y1 > seen.bottom)) continue;
    const path = paths[marks.critical.has(e) ? 4 : marks.edge[e]];
    if (far) {
      path.moveTo(x1, y1);
      for (let p = 0; points && p < points.length; p += 2) path.lineTo(points[p], points[p + 1]);
      path.lineTo(x2, y2);
    } else curve(path, x1, y1, x2, y2, points);
    if (!far && (label[e] || kind[e])) labelled.push(e);
  }
  const styles = [
    [palette['line-strong'], 1.4, []],
    [palette.soft, 1.8, []],
    [palette['line-strong'], 1.3, [3, 4]],
    [palette.bad, 1.6, [6, 4]],
    [palette.accent, 2.6, []],
  ];
  styles.forEach(([colour, width, dash], i) => {
    g.strokeStyle = /** @type {string} */ (colour);
    // From afar thousands of edges would hide the boxes.
    g.globalAlpha = far && i < 4 ? 0.4 : 1;
    g.lineWidth = far ? (i < 4 ? 0.7 : 2.5) / camera.scale : /** @type {number} */ (width) / Math.max(Math.min(camera.scale, 1), 0.5);
    g.setLineDash(/** @type {number[]} */ (dash));
    g.stroke(paths[i]);
  });
  g.globalAlpha = 1;
  g.setLineDash([]);
  if (camera.scale > 0.5) for (const e of labelled) edgeLabel(g, scene, e, kind[e], label[e], palette);
}

/** @param {Path2D} path @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {number[] | undefined} via */
function curve(path, x1, y1, x2, y2, via) {
  path.moveTo(x1, y1);
  let px = x1;
  let py = y1;
  const step = (/** @type {number} */ x, /** @type {number} */ y) => {
    const bend = (y - py) / 2;
    path.bezierCurveTo(px, py + bend, x, y - bend, x, y);
    px = x;
    py = y;
  };
  for (let p = 0; via && p < via.length; p += 2) step(via[p], via[p + 1]);
  step(x2, y2 - 5);
  path.moveTo(x2 - 4, y2 - 7);
  path.lineTo(x2, y2 - 1);
  path.lineTo(x2 + 4, y2 - 7);
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {number} e @param {number} kind @param {string | undefined} label @param {Record<string, string>} palette */
function edgeLabel(g, scene, e, kind, label, palette) {
  const { from, to } = scene.packed.edges;
  const words = `${kind === 1 ? 'on failure' : kind === 2 ? 'always' : ''}${kind && label ? ': ' : ''}${label ?? ''}`;
  const text = visible(words.length > 30 ? `${words.slice(0, 29)}…` : words);
  const x = (scene.x[from[e]] + scene.w[from[e]] / 2 + scene.x[to[e]] + scene.w[to[e]] / 2) / 2;
  const y = (scene.y[from[e]] + scene.h[from[e]] + scene.y[to[e]]) / 2;
  g.font = `11px ${palette.text}`;
  const width = g.measureText(text).width;
  g.fillStyle = palette.sunken;
  g.fillRect(x - width / 2 - 3, y - 8, width + 6, 16);
  g.fillStyle = kind === 1 ? palette.bad : palette.soft;
  g.textAlign = 'center';
  g.textBaseline = 'middle';
  g.fillText(text, x, y);
}
