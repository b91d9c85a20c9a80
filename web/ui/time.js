// Moments: relative to now, with the exact one, in UTC and local, for the pointer and the keyboard.
import { fill, h } from '../lib/dom.js';
import { exact, relative } from '../lib/text.js';

const ROWS = 'tr, li, [role="row"]';
const CONTROLS = 'a, button, summary';

/** A moment: relative, with the exact one on hover and focus. `at` is its ISO text. */
export class TimeElement extends HTMLElement {
  static observedAttributes = ['at'];
  connectedCallback() {
    TIMES.add(this);
    this.render();
    // In a row that takes the focus, its times are told then: a list needs no more stops.
    if (!this.closest(CONTROLS) && !this.closest(ROWS)?.querySelector(CONTROLS)) this.tabIndex = 0;
  }
  disconnectedCallback() {
    TIMES.delete(this);
  }
  attributeChangedCallback() {
    this.render();
  }
  render() {
    const element = /** @type {HTMLElement} */ (this);
    const at = Date.parse(element.getAttribute('at') ?? '');
    if (Number.isNaN(at)) {
      element.textContent = '–';
      return;
    }
    const words = relative(at);
    if (element.textContent !== words) element.textContent = words;
  }
  exact() {
    return exact(this.getAttribute('at') ?? '');
  }
}
/** @type {Set<TimeElement>} */
const TIMES = new Set();
setInterval(() => {
  if (!document.hidden) for (const time of TIMES) time.render();
}, 5000);
customElements.define('w-time', TimeElement);
// The exact moment is written when the pointer comes, not for each of hundreds of rows.
document.addEventListener('pointerover', ({ target }) => {
  if (target instanceof TimeElement) target.title = target.exact();
});

const hint = h('div', { class: 'exact-time', role: 'tooltip', id: 'exact-time', hidden: true });
/** @type {Element | null} */
let described = null;

function hide() {
  hint.hidden = true;
  described?.removeAttribute('aria-describedby');
  described = null;
}

/** Its own, or those beside it in its row. @param {Element} target @returns {Element[]} */
function timesOf(target) {
  if (target instanceof TimeElement) return [target];
  // A region around a whole table says nothing.
  const own = target.matches(CONTROLS) ? [...target.querySelectorAll('w-time')] : [];
  return (own.length ? own : [...(target.closest(ROWS)?.querySelectorAll('w-time') ?? [])]).slice(0, 4);
}

document.addEventListener('focusin', ({ target }) => {
  hide();
  if (!(target instanceof Element) || !target.matches(':focus-visible')) return;
  const times = timesOf(target);
  if (!times.length || target.hasAttribute('aria-describedby')) return;
  fill(hint, times.map((time) => h('div', null, /** @type {TimeElement} */ (time).exact())));
  // A dialog lies above the rest of the page, and what belongs to it has to be in it.
  (target.closest('dialog') ?? document.body).append(hint);
  const { left, bottom } = times[0].getBoundingClientRect();
  hint.hidden = false;
  hint.style.setProperty('left', `${Math.max(4, Math.min(left, innerWidth - hint.offsetWidth - 8))}px`);
  hint.style.setProperty('top', `${Math.min(bottom + 4, innerHeight - hint.offsetHeight - 8)}px`);
  described = target;
  target.setAttribute('aria-describedby', hint.id);
});
document.addEventListener('focusout', hide);
document.addEventListener('scroll', hide, { capture: true, passive: true });

/** @param {string | null | undefined} at */
export function time(at) {
  if (!at) return h('span', { class: 'muted' }, '–');
  const element = document.createElement('w-time');
  element.setAttribute('at', at);
  return element;
}
