// Statuses as shapes on a canvas, the same as the icons of rows.

/** By number, as marks of boxes have them. */
export const STATUSES = ['Pending', 'Queued', 'Running', 'Waiting', 'Succeeded', 'Failed', 'Skipped', 'Blocked', 'Cancelled'];

/** The status as a shape. @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {number} status @param {string} colour @param {Record<string, string>} palette */
export function glyph(g, x, y, status, colour, palette) {
  g.fillStyle = g.strokeStyle = colour;
  g.lineWidth = 1.6;
  g.lineCap = 'round';
  g.beginPath();
  const name = STATUSES[status];
  if (name === 'Failed') g.roundRect(x - 6, y - 6, 12, 12, 2.5);
  else if (name === 'Waiting') {
    g.moveTo(x, y - 7);
    g.lineTo(x + 7, y);
    g.lineTo(x, y + 7);
    g.lineTo(x - 7, y);
    g.closePath();
  } else g.arc(x, y, 6, 0, Math.PI * 2);
  const solid = name === 'Succeeded' || name === 'Failed' || name === 'Cancelled';
  if (solid) g.fill();
  else {
    if (name === 'Pending') g.setLineDash([2.4, 2]);
    g.stroke();
    g.setLineDash([]);
  }
  g.strokeStyle = solid ? palette.surface : colour;
  g.beginPath();
  if (name === 'Succeeded') {
    g.moveTo(x - 3, y + 0.3);
    g.lineTo(x - 0.9, y + 2.6);
    g.lineTo(x + 3.2, y - 2.4);
  } else if (name === 'Failed') {
    g.moveTo(x - 2.6, y - 2.6);
    g.lineTo(x + 2.6, y + 2.6);
    g.moveTo(x + 2.6, y - 2.6);
    g.lineTo(x - 2.6, y + 2.6);
  } else if (name === 'Running') {
    g.moveTo(x, y - 6);
    g.arc(x, y, 6, -Math.PI / 2, Math.PI / 2);
    g.fill();
  } else if (name === 'Waiting') {
    g.moveTo(x, y - 3.2);
    g.lineTo(x, y);
    g.lineTo(x + 2.2, y + 1.4);
  } else if (name === 'Blocked') {
    g.moveTo(x - 4, y - 4);
    g.lineTo(x + 4, y + 4);
  } else if (name === 'Cancelled' || name === 'Queued') {
    g.moveTo(x - 2.8, y);
    g.lineTo(x + 2.8, y);
  } else if (name === 'Skipped') {
    g.moveTo(x - 3, y + 2);
    g.quadraticCurveTo(x, y - 4, x + 3, y + 0.5);
  }
  g.stroke();
}
