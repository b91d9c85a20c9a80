// The whole graph, small, with what is in view. Hidden while all of it is in view.
import { boxTone } from './paint.js';

const W = 168;
const H = 112;

export class Minimap extends HTMLElement {
  /** @param {(x: number, y: number) => void} go */
  constructor(go) {
    super();
    this.go = go;
    this.stale = true;
    this.drawnAt = 0;
    this.canvas = document.createElement('canvas');
    this.back = document.createElement('canvas');
    this.scale = 1;
    this.left = 0;
    this.top = 0;
  }

  connectedCallback() {
    this.className = 'minimap';
    this.setAttribute('aria-hidden', 'true');
    this.append(this.canvas);
    for (const canvas of [this.canvas, this.back]) {
      canvas.width = W * 2;
      canvas.height = H * 2;
    }
    const move = (/** @type {PointerEvent} */ event) => {
      if (!event.buttons) return;
      const box = this.canvas.getBoundingClientRect();
      this.go((event.clientX - box.left - this.left) / this.scale, (event.clientY - box.top - this.top) / this.scale);
    };
    this.canvas.addEventListener('pointerdown', move);
    this.canvas.addEventListener('pointermove', move);
  }

  /** Statuses changed: drawn again, at most twice a second. */
  changed() {
    if (performance.now() - this.drawnAt > 500) this.stale = true;
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {import('./paint.js').Camera} camera @param {any} how */
  paint(scene, marks, camera, how) {
    const whole =
      camera.x <= 0 &&
      camera.y <= 0 &&
      camera.x + how.width / camera.scale >= scene.width &&
      camera.y + how.height / camera.scale >= scene.height;
    this.hidden = whole || scene.count < 2;
    if (this.hidden) return;
    this.scale = Math.min((W - 8) / scene.width, (H - 8) / scene.height);
    this.left = (W - scene.width * this.scale) / 2;
    this.top = (H - scene.height * this.scale) / 2;
    if (this.stale) this.repaint(scene, marks, how);
    const g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, W * 2, H * 2);
    g.drawImage(this.back, 0, 0);
    g.setTransform(2, 0, 0, 2, 0, 0);
    g.strokeStyle = how.palette.accent;
    g.lineWidth = 1.5;
    const x = Math.max(1, this.left + camera.x * this.scale);
    const y = Math.max(1, this.top + camera.y * this.scale);
    const right = Math.min(W - 1, this.left + (camera.x + how.width / camera.scale) * this.scale);
    const bottom = Math.min(H - 1, this.top + (camera.y + how.height / camera.scale) * this.scale);
    g.strokeRect(x, y, Math.max(right - x, 3), Math.max(bottom - y, 3));
  }

  /** @param {import('./scene.js').Scene} scene @param {import('./paint.js').Marks} marks @param {any} how */
  repaint(scene, marks, how) {
    this.stale = false;
    this.drawnAt = performance.now();
    const g = /** @type {CanvasRenderingContext2D} */ (this.back.getContext('2d'));
    g.setTransform(2, 0, 0, 2, 0, 0);
    g.clearRect(0, 0, W, H);
    for (let i = 0; i < scene.count; i++) {
      if (scene.opened.has(i)) continue;
      g.fillStyle = how.palette[boxTone(marks, i) ?? 'line-strong'];
      g.fillRect(
        this.left + scene.x[i] * this.scale,
        this.top + scene.y[i] * this.scale,
        Math.max(scene.w[i] * this.scale, 0.7),
        Math.max(scene.h[i] * this.scale, 0.7),
      );
    }
  }
}
customElements.define('w-minimap', Minimap);
