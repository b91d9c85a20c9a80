// Keys among virtual rows: Tab stops at one row, the arrow keys move between rows and between the
// controls of a row, and the focus stays where it is while rows are drawn anew.

/** @typedef {{ place: number, control: number }} Focus */

/** @param {HTMLElement} scroller @returns {Focus | null} */
export function focusIn(scroller) {
  const active = document.activeElement;
  const row = /** @type {HTMLElement | null | undefined} */ (active?.closest('[data-place]'));
  if (!active || !row || !scroller.contains(row)) return null;
  return { place: Number(row.dataset.place), control: controls(row).findIndex((control) => control === active) };
}

/** @param {HTMLElement} scroller @param {Focus | null} focus */
export function restore(scroller, focus) {
  const row = focus ? /** @type {HTMLElement | null} */ (scroller.querySelector(`[data-place="${focus.place}"]`)) : null;
  if (!row || !focus) return;
  const all = controls(row);
  all[Math.max(0, Math.min(focus.control, all.length - 1))]?.focus({ preventScroll: true });
}

/** Only the first row that is seen, or the one with the focus, takes Tab. @param {HTMLElement} scroller @param {number} first */
export function setStop(scroller, first) {
  const stop = focusIn(scroller)?.place ?? first;
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (scroller.querySelectorAll('[data-place]')))
    controls(row).forEach((control, i) => (control.tabIndex = i === 0 && Number(row.dataset.place) === stop ? 0 : -1));
}

/** @param {HTMLElement} row @returns {HTMLElement[]} */
function controls(row) {
  return [...row.querySelectorAll('button')];
}

/**
 * @param {HTMLElement} scroller @param {() => number} count
 * @param {(place: number) => void} reveal scrolls to a row and draws it at once
 */
export function moveByKeys(scroller, count, reveal) {
  scroller.addEventListener('keydown', (event) => {
    const focus = focusIn(scroller);
    if (!focus || event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const aside = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (rows === undefined && aside === undefined) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(count() - 1, focus.place + (rows ?? 0)));
    if (place !== focus.place) reveal(place);
    restore(scroller, { place, control: Math.max(0, focus.control + (aside ?? 0)) });
  });
}
