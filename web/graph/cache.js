// A large graph seen from afar, painted once with a margin around it: moving and zooming copy the
// picture. Boxes are painted anew when statuses change; edges, which cost most, when all is still.
import { paint } from './paint.js';

const MARGIN = 0.5;
/** How often changed statuses are painted. */
const BOXES_MS = 150;
/** For how long edges may be older than their boxes. */
const EDGES_MS = 2500;
/** From how many boxes on, and how far away, a copy is worth it. */
const MANY = 2500;
const FAR = 0.28;

export class FarCache {
  constructor() {
    this.edges = document.createElement('canvas');
    this.whole = document.createElement('canvas');
    /** @type {unknown} */
    this.scene = null;
    /** @type {unknown} */
    this.marks = null;
    this.camera = { x: 0, y: 0, scale: 0 };
    this.last = { x: 0, y: 0, scale: 0 };
    this.size = { width: 0, height: 0 };
    this.key = '';
    this.boxesAt = 0;
    this.edgesAt = 0;
    this.edgeMarks = /** @type {unknown} */ (null);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * Whether it painted; `again` is called when the picture should be made anew.
   * @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks
   * @param {import('./paint.js').Camera} camera @param {any} how @param {() => void} again
   */
  paint(g, scene, marks, camera, how, again) {
    if (scene.count < MANY || camera.scale >= FAR) return false;
    const now = performance.now();
    const moving = camera.x !== this.last.x || camera.y !== this.last.y || camera.scale !== this.last.scale;
    this.last = { ...camera };
    const key = `${how.found?.size ?? ''} ${how.palette.bg} ${how.width} ${how.height}`;
    const ratio = camera.scale / this.camera.scale;
    const usable = this.scene === scene && key === this.key && ratio > 0.5 && ratio < 2 && this.covers(scene, camera, how);
    const blurred = ratio !== 1 || (this.edgeMarks !== marks && now - this.edgesAt > EDGES_MS);
    if (!usable || (blurred && !moving)) this.repaintEdges(scene, marks, camera, how, key);
    else if (this.marks !== marks && !moving && now - this.boxesAt > BOXES_MS) this.repaintBoxes(scene, marks, how);
    if (moving || this.marks !== marks || this.edgeMarks !== marks) {
      clearTimeout(this.timer);
      this.timer = setTimeout(again, BOXES_MS);
    }
    this.copy(g, scene, camera, how);
    return true;
  }

  /** @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {import('./paint.js').Camera} camera @param {any} how */
  copy(g, scene, camera, how) {
    const k = camera.scale / this.camera.scale;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, how.width * how.ratio, how.height * how.ratio);
    g.drawImage(
      this.whole,
      (this.camera.x - camera.x) * camera.scale * how.ratio,
      (this.camera.y - camera.y) * camera.scale * how.ratio,
      this.whole.width * k,
      this.whole.height * k,
    );
    const chosen = how.selected >= 0 ? how.selected : how.hover;
    if (chosen < 0) return;
    g.strokeStyle = how.palette.accent;
    g.lineWidth = 2 * how.ratio;
    const at = (/** @type {number} */ v, /** @type {number} */ from) => (v - from) * camera.scale * how.ratio;
    g.strokeRect(
      at(scene.x[chosen], camera.x) - 3,
      at(scene.y[chosen], camera.y) - 3,
      scene.w[chosen] * camera.scale * how.ratio + 6,
      scene.h[chosen] * camera.scale * how.ratio + 6,
    );
  }

  /** Whether all that is in view of the graph is in the picture. @param {import('./scene.js').Scene} scene @param {import('./paint.js').Camera} camera @param {any} how */
  covers(scene, camera, how) {
    return (
      Math.max(camera.x, 0) >= this.camera.x &&
      Math.max(camera.y, 0) >= this.camera.y &&
      Math.min(camera.x + how.width / camera.scale, scene.width) <= this.camera.x + this.size.width / this.camera.scale &&
      Math.min(camera.y + how.height / camera.scale, scene.height) <= this.camera.y + this.size.height / this.camera.scale
    );
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {import('./paint.js').Camera} camera @param {any} how @param {string} key */
  repaintEdges(scene, marks, camera, how, key) {
    this.camera = {
      x: camera.x - (how.width * MARGIN) / camera.scale,
      y: camera.y - (how.height * MARGIN) / camera.scale,
      scale: camera.scale,
    };
    this.size = { width: how.width * (1 + 2 * MARGIN), height: how.height * (1 + 2 * MARGIN) };
    for (const canvas of [this.edges, this.whole]) {
      canvas.width = Math.round(this.size.width * how.ratio);
      canvas.height = Math.round(this.size.height * how.ratio);
    }
    const g = /** @type {CanvasRenderingContext2D} */ (this.edges.getContext('2d'));
    paint(g, scene, marks, this.camera, { ...how, ...this.size, selected: -1, hover: -1 }, 'edges');
    this.scene = scene;
    this.key = key;
    this.edgeMarks = marks;
    this.edgesAt = performance.now();
    this.repaintBoxes(scene, marks, how);
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {any} how */
  repaintBoxes(scene, marks, how) {
    const g = /** @type {CanvasRenderingContext2D} */ (this.whole.getContext('2d'));
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.whole.width, this.whole.height);
    g.drawImage(this.edges, 0, 0);
    paint(g, scene, marks, this.camera, { ...how, ...this.size, selected: -1, hover: -1 }, 'boxes');
    this.marks = marks;
    this.boxesAt = performance.now();
  }
}
