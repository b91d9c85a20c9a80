// What all views share: a custom element that follows the address, drops what is under way when
// it goes, and refreshes when the server is back.
import { ApiError, onReturn } from './api.js';
import { append, fill, h } from './dom.js';
import { routes, route } from './router.js';

/** @typedef {import('./router.js').Route} Route */

export class View extends HTMLElement {
  constructor() {
    super();
    this.abort = new AbortController();
    /** @type {(() => void)[]} */
    this.endings = [];
  }

  connectedCallback() {
    this.abort = new AbortController();
    const listener = () => {
      const now = route();
      if (this.isConnected && this.keeps(now)) this.routed(now);
    };
    routes.addEventListener('route', listener);
    this.endings = [() => routes.removeEventListener('route', listener), onReturn(() => this.refresh())];
    this.start(route());
  }

  disconnectedCallback() {
    this.abort.abort();
    for (const end of this.endings) end();
    this.stop();
  }

  /** Whether this element shows the address. @param {Route} _now */
  keeps(_now) {
    return true;
  }

  /** The first data is drawn. */
  ready() {
    this.dispatchEvent(new Event('ready'));
  }

  /** @param {Route} _now */
  start(_now) {}
  /** @param {Route} _now */
  routed(_now) {}
  refresh() {}
  stop() {}

  /** Repeats while the page is visible. @param {() => number} ms @param {() => Promise<void> | void} work */
  repeat(ms, work) {
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const again = () => {
      timer = setTimeout(async () => {
        if (!document.hidden && this.isConnected) await Promise.resolve(work()).catch(() => {});
        if (this.isConnected) again();
      }, ms());
    };
    again();
    this.endings.push(() => clearTimeout(timer));
  }
}

/** What is shown where an answer should be. @param {unknown} error @param {(() => void) | null} [again] */
export function failure(error, again) {
  const known = error instanceof ApiError ? error : null;
  const box = h(
    'div',
    { class: 'failure', role: 'alert' },
    h('strong', null, title(known, error)),
    h('p', null, known ? known.message : String(error)),
    known?.hint ? h('p', { class: 'muted' }, known.hint) : null,
  );
  for (const detail of known?.details ?? []) {
    append(box, h('p', { class: 'detail' }, detail.pointer ? h('code', null, detail.pointer) : null, ' ', detail.message));
  }
  append(
    box,
    h(
      'p',
      { class: 'muted' },
      known ? h('code', null, known.code) : null,
      known?.correlationId ? [' · correlation id ', h('code', null, known.correlationId)] : null,
    ),
  );
  if (again) append(box, h('button', { class: 'button', type: 'button', on: { click: again } }, 'Try again'));
  return box;
}

/** @param {ApiError | null} known @param {unknown} error */
function title(known, error) {
  if (!known) return error instanceof Error ? 'This part of the page failed' : 'Failed';
  if (known.status === 0) return 'The server cannot be reached';
  if (known.status === 401) return 'Sign in to see this';
  if (known.status === 403) return 'Your token does not allow this';
  if (known.status === 404) return 'Not found';
  if (known.status === 429) return 'Too many requests for this token';
  return 'The server refused';
}

/** @param {Element} place @param {string} [word] */
export function loading(place, word = 'Loading') {
  fill(place, h('p', { class: 'loading muted', 'aria-busy': 'true' }, `${word} …`));
}

/** Shows the next command where there is nothing yet. @param {string} title @param {string} why @param {...Node} more */
export function empty(title, why, ...more) {
  return h('div', { class: 'empty' }, h('strong', null, title), h('p', { class: 'muted' }, why), ...more);
}
