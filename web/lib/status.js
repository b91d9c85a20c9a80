// Statuses: one shape, one word and one colour each, for rows and for the canvas.
import { h, svg } from './dom.js';

/** @type {Record<string, { tone: string, path: string, solid?: boolean }>} */
const SHAPES = {
  Succeeded: { tone: 'good', solid: true, path: 'M3.2 7.4 6 10.1 10.9 4.4' },
  Failed: { tone: 'bad', solid: true, path: 'M4.2 4.2l5.6 5.6M9.8 4.2 4.2 9.8' },
  Running: { tone: 'live', path: 'M7 1.5a5.5 5.5 0 0 1 0 11z' },
  Waiting: { tone: 'wait', path: 'M7 3.6V7l2.3 1.6' },
  Paused: { tone: 'wait', path: 'M5.2 4.4v5.2M8.8 4.4v5.2' },
  Pending: { tone: 'idle', path: '' },
  Queued: { tone: 'idle', path: 'M4.4 7h5.2' },
  Skipped: { tone: 'idle', path: 'M4 9.2c.6-3.2 3.6-4.6 6-2.6M10.2 4.2v2.6H7.6' },
  Blocked: { tone: 'block', path: 'M3.2 3.2l7.6 7.6' },
  Cancelled: { tone: 'block', solid: true, path: 'M4 7h6' },
};

/** The order in which statuses are listed. */
export const RUN_STATUSES = ['Failed', 'Running', 'Pending', 'Paused', 'Succeeded', 'Cancelled'];

/** @param {string} status */
export function tone(status) {
  return SHAPES[status]?.tone ?? 'idle';
}

/** @param {string} status */
export function icon(status) {
  const shape = SHAPES[status] ?? { tone: 'idle', path: '' };
  const body = outline(status, shape.solid === true);
  const mark = svg('path', { d: shape.path, class: status === 'Running' ? 'mark-fill' : 'mark' });
  return svg('svg', { viewBox: '0 0 14 14', class: `icon ${shape.tone}${shape.solid ? ' solid' : ''}`, 'aria-hidden': 'true' }, body, mark);
}

/** @param {string} status @param {boolean} solid */
function outline(status, solid) {
  const name = solid ? 'body-fill' : 'body';
  if (status === 'Failed') return svg('rect', { x: 1.2, y: 1.2, width: 11.6, height: 11.6, rx: 2.5, class: name });
  if (status === 'Waiting' || status === 'Paused') return svg('path', { d: 'M7 .9 13.1 7 7 13.1.9 7z', class: name });
  if (status === 'Pending') return svg('circle', { cx: 7, cy: 7, r: 5.5, class: `${name} dashed` });
  return svg('circle', { cx: 7, cy: 7, r: solid ? 6 : 5.5, class: name });
}

/** @param {string} status @param {string} [word] */
export function badge(status, word) {
  return h('span', { class: `status ${tone(status)}` }, icon(status), h('span', null, word ?? status));
}

/** Whether a run has ended. @param {string} status */
export function ended(status) {
  return status === 'Succeeded' || status === 'Failed' || status === 'Cancelled';
}
