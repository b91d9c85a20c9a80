// Mouse, pen and fingers on the graph: drag to move, wheel or pinch to zoom, click to choose.

/** @param {import('./view.js').GraphElement} graph */
export function attachPointers(graph) {
  /** @type {Map<number, { x: number, y: number }>} */
  const down = new Map();
  let moved = 0;
  const place = (/** @type {MouseEvent} */ event) => {
    const box = graph.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const at = (/** @type {{ x: number, y: number }} */ p) =>
    graph.scene?.at(graph.camera.x + p.x / graph.camera.scale, graph.camera.y + p.y / graph.camera.scale) ?? -1;
  graph.canvas.addEventListener('pointerdown', (event) => {
    graph.canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    moved = 0;
  });
  graph.canvas.addEventListener('pointermove', (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (!before) return graph.hovered(at(now), now);
    if (down.size === 2) {
      const [a, b] = [...down.values()];
      const span = Math.hypot(a.x - b.x, a.y - b.y);
      down.set(event.pointerId, now);
      const [c, d] = [...down.values()];
      graph.zoom(Math.hypot(c.x - d.x, c.y - d.y) / Math.max(span, 1), (c.x + d.x) / 2, (c.y + d.y) / 2);
    } else {
      graph.camera.x -= (now.x - before.x) / graph.camera.scale;
      graph.camera.y -= (now.y - before.y) / graph.camera.scale;
      down.set(event.pointerId, now);
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (moved > 3) graph.fitted = false;
    graph.draw();
    graph.relist();
  });
  const up = (/** @type {PointerEvent} */ event) => {
    const now = place(event);
    if (!down.delete(event.pointerId) || moved > 4 || event.type === 'pointercancel') return;
    graph.clicked(at(now), now);
  };
  graph.canvas.addEventListener('pointerup', up);
  graph.canvas.addEventListener('pointercancel', up);
  graph.canvas.addEventListener('pointerleave', () => graph.hovered(-1, { x: 0, y: 0 }));
  graph.canvas.addEventListener('dblclick', (event) => {
    const i = at(place(event));
    if (i >= 0) graph.toggle(i);
  });
  graph.canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const now = place(event);
      if (event.ctrlKey || event.metaKey || event.deltaMode) graph.zoom(Math.exp(-event.deltaY * 0.01), now.x, now.y);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        graph.camera.x += (event.deltaX || event.deltaY) / graph.camera.scale;
        graph.fitted = false;
      } else graph.zoom(Math.exp(-event.deltaY * 0.0015), now.x, now.y);
      graph.draw();
      graph.relist();
    },
    { passive: false },
  );
}
