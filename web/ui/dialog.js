// A modal dialog with a title; Escape, the backdrop, going back and another view close it.
import { h } from '../lib/dom.js';
import { routes } from '../lib/router.js';

/** @param {string} title @param {Node} content @param {() => void} [closed] @param {string} [kind] */
export function openDialog(title, content, closed, kind = '') {
  const close = h('button', { type: 'button', class: 'button small', 'aria-label': 'Close', on: { click: () => dialog.close() } }, '✕');
  const head = h('div', { class: 'dialog-head' }, h('h1', { id: 'dialog-title' }, title), close);
  const dialog = h('dialog', { class: kind, 'aria-labelledby': 'dialog-title' });
  if (content instanceof Element) content.prepend(head);
  dialog.append(content);
  // Its command is about the view under it.
  const place = location.pathname;
  const left = () => location.pathname !== place && dialog.close();
  const back = () => dialog.close();
  routes.addEventListener('route', left);
  addEventListener('popstate', back);
  dialog.addEventListener('close', () => {
    routes.removeEventListener('route', left);
    removeEventListener('popstate', back);
    dialog.remove();
    closed?.();
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  const first = /** @type {HTMLElement | null} */ (dialog.querySelector('input:not([hidden]), select, textarea'));
  (first ?? close).focus();
  return dialog;
}
