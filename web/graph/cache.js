// A large graph seen from afar, painted once with a margin around it: moving and zooming copy the
// picture, and it is painted anew when the view leaves it or statuses have changed for a while.
import { paint } from './paint.js';

const MARGIN = 0.5;
const STALE_MS = 300;

/** From how many boxes on, and how far away, a copy is worth it. */
const MANY = 2500;
const FAR = 0.28;

export class FarCache {
  constructor() {
    this.canvas = document.createElement('canvas');
    /** @type {unknown} */
    this.scene = null;
    /** @type {unknown} */
    this.marks = null;
    this.camera = { x: 0, y: 0, scale: 0 };
    this.size = { width: 0, height: 0, ratio: 1 };
    this.key = '';
    this.paintedAt = 0;
  }

  /**
   * Whether it painted; `again` is called when the picture should be made anew.
   * @param {CanvasRenderingContext2D} g @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks
   * @param {import('./paint.js').Camera} camera @param {any} how @param {() => void} again
   */
  paint(g, scene, marks, camera, how, again) {
    if (scene.count < MANY || camera.scale >= FAR) return false;
    const key = `${how.selected} ${how.found?.size ?? ''} ${how.palette.bg} ${how.width} ${how.height}`;
    const ratio = camera.scale / this.camera.scale;
    const inside = this.scene === scene && key === this.key && ratio > 0.6 && ratio < 1.5 && this.covers(scene, camera, how);
    const stale = this.marks !== marks || ratio !== 1;
    if (!inside || (stale && performance.now() - this.paintedAt > STALE_MS)) this.repaint(scene, marks, camera, how, key);
    else if (stale) setTimeout(again, STALE_MS);
    const k = camera.scale / this.camera.scale;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, how.width * how.ratio, how.height * how.ratio);
    g.drawImage(this.canvas, (this.camera.x - camera.x) * camera.scale * how.ratio, (this.camera.y - camera.y) * camera.scale * how.ratio, this.canvas.width * k, this.canvas.height * k);
    return true;
  }

  /** Whether all that is in view of the graph is in the picture. @param {import('./scene.js').Scene} scene @param {import('./paint.js').Camera} camera @param {any} how */
  covers(scene, camera, how) {
    const right = this.camera.x + this.size.width / this.camera.scale;
    const bottom = this.camera.y + this.size.height / this.camera.scale;
    return Math.max(camera.x, 0) >= Math.min(this.camera.x, 0) && Math.max(camera.x, 0) >= this.camera.x && Math.max(camera.y, 0) >= this.camera.y
      && Math.min(camera.x + how.width / camera.scale, scene.width) <= right && Math.min(camera.y + how.height / camera.scale, scene.height) <= bottom;
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {import('./paint.js').Camera} camera @param {any} how @param {string} key */
  repaint(scene, marks, camera, how, key) {
    this.camera = { x: camera.x - (how.width * MARGIN) / camera.scale, y: camera.y - (how.height * MARGIN) / camera.scale, scale: camera.scale };
    this.size = { width: how.width * (1 + 2 * MARGIN), height: how.height * (1 + 2 * MARGIN), ratio: how.ratio };
    this.canvas.width = Math.round(this.size.width * how.ratio);
    this.canvas.height = Math.round(this.size.height * how.ratio);
    const g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    paint(g, scene, marks, this.camera, { ...how, ...this.size, hover: -1 });
    this.scene = scene;
    this.marks = marks;
    this.key = key;
    this.paintedAt = performance.now();
  }
}
