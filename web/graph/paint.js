// Paints a scene on a canvas: edges by their state, boxes by their status, less detail the
// farther away. Reads colours from the style sheet, so that light and dark come from one place.
import { visible } from '../lib/text.js';
import { STATUSES, glyph } from './glyph.js';
import { paintEdges } from './paint-edges.js';

export { STATUSES };
const TONES = ['idle', 'idle', 'live', 'wait', 'good', 'bad', 'idle', 'block', 'block'];

/** @typedef {'added' | 'removed' | 'changed' | 'failing' | 'flaky'} Change */

/**
 * @typedef {object} Marks what is said of boxes and edges, by their place in the scene
 * @property {Uint8Array} status index into STATUSES; 255 without one
 * @property {Map<number, string>} notes a word at the right side of a box
 * @property {Uint8Array} edge 0 unresolved, 1 taken, 2 not taken, 3 lost
 * @property {Set<number>} critical edges of the critical path
 * @property {Map<number, Change>} changes what is drawn instead of a status
 * @property {Map<number, number>} [progress] from 0 to 1
 */

/** @param {import('./scene.js').Scene} scene @returns {Marks} */
export function noMarks(scene) {
  return {
    status: new Uint8Array(scene.count).fill(255),
    notes: new Map(),
    edge: new Uint8Array(scene.packed.edges.from.length),
    critical: new Set(),
    changes: new Map(),
  };
}

/** @param {Element} element */
export function readPalette(element) {
  const style = getComputedStyle(element);
  const value = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  /** @type {Record<string, string>} */
  const palette = {};
  for (const name of [
    'bg',
    'surface',
    'sunken',
    'line',
    'line-strong',
    'ink',
    'soft',
    'faint',
    'accent',
    'accent-soft',
    'good',
    'bad',
    'live',
    'wait',
    'idle',
    'block',
    'good-soft',
    'bad-soft',
    'live-soft',
    'wait-soft',
    'idle-soft',
    'block-soft',
  ])
    palette[name] = value(name);
  palette.text = style.getPropertyValue('--text-face').trim();
  return palette;
}

/** @typedef {{ x: number, y: number, scale: number }} Camera */

/**
 * @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {Marks} marks
 * @param {Camera} camera @param {{ width: number, height: number, ratio: number, selected: number, hover: number, focused: boolean, found: Set<number> | null, palette: Record<string, string> }} how
 * @param {'all' | 'edges' | 'boxes'} [part]
 */
export function paint(g, scene, marks, camera, how, part = 'all') {
  const { palette, ratio } = how;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (part !== 'boxes') g.clearRect(0, 0, how.width, how.height);
  g.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, -camera.x * camera.scale * ratio, -camera.y * camera.scale * ratio);
  const right = camera.x + how.width / camera.scale;
  const bottom = camera.y + how.height / camera.scale;
  const inside = scene.within(camera.x, camera.y, right, bottom);
  const boxes = inside ?? Array.from({ length: scene.count }, (_, i) => i);
  if (part !== 'boxes') for (const i of boxes) if (scene.opened.has(i)) openedBox(g, scene, marks, i, how);
  if (part !== 'boxes') paintEdges(g, scene, marks, camera, { left: camera.x, top: camera.y, right, bottom }, palette);
  if (part === 'edges') return;
  if (camera.scale < 0.28) farBoxes(g, scene, marks, boxes, how);
  else for (const i of boxes) if (!scene.opened.has(i)) box(g, scene, marks, i, camera.scale, how);
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {Marks} marks @param {number[]} boxes @param {any} how */
function farBoxes(g, scene, marks, boxes, how) {
  /** @type {Map<string, number[]>} */
  const byColour = new Map();
  for (const i of boxes) {
    if (scene.opened.has(i)) continue;
    const colour = boxTone(marks, i) ?? 'line-strong';
    const list = byColour.get(colour);
    if (list) list.push(i);
    else byColour.set(colour, [i]);
  }
  for (const [colour, list] of byColour) {
    g.fillStyle = how.palette[colour];
    for (const i of list) g.fillRect(scene.x[i], scene.y[i], scene.w[i], scene.h[i]);
  }
  for (const i of [how.selected, how.hover]) if (i >= 0) ring(g, scene, i, how);
}

/** @param {Marks} marks @param {number} i */
export function boxTone(marks, i) {
  const change = marks.changes.get(i);
  if (change) return { added: 'good', removed: 'bad', changed: 'wait', failing: 'bad', flaky: 'wait' }[change];
  return marks.status[i] === 255 ? null : TONES[marks.status[i]];
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {number} i @param {any} how */
function ring(g, scene, i, how) {
  g.strokeStyle = how.palette.accent;
  g.lineWidth = Math.max(2.5, 2 / (g.getTransform().a / how.ratio));
  rounded(g, scene.x[i] - 3, scene.y[i] - 3, scene.w[i] + 6, scene.h[i] + 6, 9);
  g.stroke();
}

/** @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {number} w @param {number} h @param {number} r */
function rounded(g, x, y, w, h, r) {
  g.beginPath();
  g.roundRect(x, y, w, h, r);
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {Marks} marks @param {number} i @param {any} how */
function openedBox(g, scene, marks, i, how) {
  const { palette } = how;
  const colour = boxTone(marks, i);
  g.fillStyle = palette.bg;
  g.strokeStyle = colour ? palette[colour] : palette['line-strong'];
  g.lineWidth = 1.5;
  rounded(g, scene.x[i], scene.y[i], scene.w[i], scene.h[i], 10);
  g.fill();
  g.setLineDash([5, 4]);
  g.stroke();
  g.setLineDash([]);
  content(g, scene, marks, i, 48, how);
  if (i === how.selected) ring(g, scene, i, how);
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {Marks} marks @param {number} i @param {number} scale @param {any} how */
function box(g, scene, marks, i, scale, how) {
  const { palette } = how;
  const [x, y, w, h] = [scene.x[i], scene.y[i], scene.w[i], scene.h[i]];
  const colour = boxTone(marks, i);
  const dim = how.found && !how.found.has(i);
  g.globalAlpha = dim ? 0.25 : marks.status[i] === 6 ? 0.65 : 1;
  if (scene.folds(i)) {
    g.fillStyle = palette.surface;
    g.strokeStyle = palette['line-strong'];
    g.lineWidth = 1;
    rounded(g, x + 4, y + 4, w, h, 7);
    g.fill();
    g.stroke();
  }
  g.fillStyle = palette.surface;
  g.strokeStyle = colour && colour !== 'idle' ? palette[colour] : palette['line-strong'];
  g.lineWidth = marks.status[i] === 2 || marks.status[i] === 5 ? 2 : 1.3;
  rounded(g, x, y, w, h, 7);
  g.fill();
  if (colour && colour !== 'idle') {
    g.save();
    g.clip();
    g.fillStyle = palette[`${colour}-soft`];
    g.fillRect(x, y, 30, h);
    const progress = marks.progress?.get(i);
    if (progress !== undefined) {
      g.fillStyle = palette[colour];
      g.fillRect(x, y + h - 3, w * progress, 3);
    }
    g.restore();
    rounded(g, x, y, w, h, 7);
  }
  g.stroke();
  content(g, scene, marks, i, h, how, scale);
  g.globalAlpha = 1;
  if (i === how.selected) ring(g, scene, i, how);
  else if (i === how.hover) {
    g.strokeStyle = palette.accent;
    g.lineWidth = 1.5;
    rounded(g, x - 1.5, y - 1.5, w + 3, h + 3, 8);
    g.stroke();
  }
}

/** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {Marks} marks @param {number} i @param {number} h @param {any} how @param {number} [scale] */
function content(g, scene, marks, i, h, how, scale = 1) {
  const { palette } = how;
  const { label, detail } = scene.packed.nodes;
  const [x, y, w] = [scene.x[i], scene.y[i], scene.w[i]];
  const status = marks.status[i];
  const colour = boxTone(marks, i);
  const sign = marks.changes.get(i);
  if (sign) changeSign(g, x + 15, y + h / 2, sign, palette[colour ?? 'ink'], palette.text);
  else if (colour) glyph(g, x + 15, y + h / 2, status, palette[colour], palette);
  const left = colour ? x + 36 : x + 12;
  const note = marks.notes.get(i);
  const room = x + w - left - 6 - (scene.folds(i) ? 14 : 0);
  g.textAlign = 'left';
  g.textBaseline = 'middle';
  g.fillStyle = palette.ink;
  // A name that is a little too long gets smaller letters before it is cut.
  g.font = `600 13px ${palette.text}`;
  if (!fits(g, label[i], room)) g.font = `600 11.5px ${palette.text}`;
  const second = scale > 0.45 ? (note ?? detail[i]) : '';
  g.fillText(fit(g, label[i], room), left, second ? y + h / 2 - 8 : y + h / 2);
  if (second) {
    g.font = `11.5px ${palette.text}`;
    g.fillStyle = note ? (colour && colour !== 'idle' ? palette[colour] : palette.soft) : palette.faint;
    g.fillText(fit(g, second, room), left, y + h / 2 + 9);
  }
  if (scene.folds(i)) {
    g.fillStyle = palette.faint;
    g.font = `12px ${palette.text}`;
    g.fillText(scene.opened.has(i) ? '▾' : '▸', x + w - 18, y + h / 2);
  }
}

/** @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {Change} change @param {string} colour @param {string} face */
function changeSign(g, x, y, change, colour, face) {
  g.fillStyle = colour;
  g.textAlign = 'center';
  g.textBaseline = 'middle';
  g.font = `700 15px ${face}`;
  g.fillText({ added: '+', removed: '−', changed: '~', failing: '!', flaky: '!' }[change], x, y + 1);
}

/** @param {CanvasRenderingContext2D} g @param {string} text @param {number} room */
function fits(g, text, room) {
  return fit(g, text, room) === text;
}

/** @type {Map<string, string>} */
const fitted = new Map();
/** @param {CanvasRenderingContext2D} g @param {string} text @param {number} room */
function fit(g, text, room) {
  const key = `${g.font}|${Math.round(room)}|${text}`;
  const known = fitted.get(key);
  if (known !== undefined) return known;
  let short = visible(text.slice(0, 200));
  if (g.measureText(short).width > room) {
    let low = 0;
    let high = short.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (g.measureText(`${short.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    short = `${short.slice(0, low)}…`;
  }
  if (fitted.size > 20_000) fitted.clear();
  fitted.set(key, short);
  return short;
}
