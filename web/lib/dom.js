// Building elements. Every string becomes a text node with hidden characters made visible, so
// that no value can become markup; there is no way here to write HTML.
import { cut, visible } from './text.js';

/** @typedef {Node | string | number | boolean | null | undefined} Leaf */
/** @typedef {Leaf | Leaf[] | Leaf[][]} Child */

/**
 * An element. `on` has listeners, `data` the dataset, `style` CSS properties; keys of false,
 * null or undefined are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Record<string, any> | null} [props] @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  if (props) setProps(element, props);
  append(element, children);
  return element;
}

/** @param {HTMLElement} element @param {Record<string, any>} props */
function setProps(element, props) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'on')
      for (const [kind, listener] of Object.entries(value)) element.addEventListener(kind, /** @type {EventListener} */ (listener));
    else if (key === 'data') Object.assign(element.dataset, value);
    else if (key === 'style') for (const [name, text] of Object.entries(value)) element.style.setProperty(name, String(text));
    else if (key === 'value' && 'value' in element) element.value = value;
    else if (key === 'class') element.className = value;
    else element.setAttribute(key, value === true ? '' : key === 'href' || key === 'id' ? String(value) : visible(cut(String(value))));
  }
}

/** @param {Node} parent @param {any} children */
export function append(parent, children) {
  for (const child of Array.isArray(children) ? children : [children]) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.appendChild(child);
    else if (child !== null && child !== undefined && child !== false && child !== true) parent.appendChild(text(String(child)));
  }
}

/** @param {string} value */
export function text(value) {
  return document.createTextNode(visible(cut(value)));
}

/** @param {Element} parent @param {...Child} children */
export function fill(parent, ...children) {
  parent.textContent = '';
  append(parent, children);
}

/**
 * These become the children. One that was there already is not moved: a button that goes and comes
 * back under the pointer gets no click and loses the focus.
 * @param {Element} parent @param {(Node | null | false)[]} children
 */
export function arrange(parent, children) {
  const wanted = children.filter((child) => child instanceof Node);
  const stays = new Set(wanted);
  for (const old of [...parent.childNodes]) if (!stays.has(old)) old.remove();
  let place = parent.firstChild;
  for (const child of wanted) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
}

/** What is drawn again has the focus again: on the element of the same name. @param {Element} root @param {() => void} draw */
export function keepFocus(root, draw) {
  const name = (/** @type {Element} */ element) => element.getAttribute('aria-label') ?? element.textContent;
  const focused = document.activeElement;
  const was = focused && root.contains(focused) ? name(focused) : null;
  draw();
  if (!was || !focused || root.contains(focused)) return;
  const again = [...root.querySelectorAll(focused.localName)].find((element) => name(element) === was);
  /** @type {HTMLElement | undefined} */ (again)?.focus();
}

/** Parts by name, each made again only when what it shows has changed. */
export class Parts {
  constructor() {
    /** @type {Map<string, { key: string, node: Node }>} */
    this.known = new Map();
  }

  /**
   * @template {Node} T
   * @param {string} name @param {any} shows @param {() => T} make
   * @returns {T}
   */
  part(name, shows, make) {
    const key = JSON.stringify(shows) ?? '';
    const old = this.known.get(name);
    if (old?.key === key) return /** @type {T} */ (old.node);
    const node = make();
    this.known.set(name, { key, node });
    return node;
  }

  /** Forgets those that `keep` refuses. @param {(name: string) => boolean} keep */
  sweep(keep) {
    for (const name of this.known.keys()) if (!keep(name)) this.known.delete(name);
  }
}

/**
 * An SVG element.
 * @param {string} tag @param {Record<string, string | number>} attributes @param {...SVGElement} children
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  for (const child of children) element.appendChild(child);
  return /** @type {SVGElement} */ (element);
}

/**
 * Calls at most once per animation frame.
 * @param {() => void} work
 */
export function eachFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

/** After the next frame is on the screen, or soon where none is drawn. */
export function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 300);
  });
}

/** @param {number} ms @param {(...args: any[]) => void} work */
export function debounce(ms, work) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return (/** @type {any[]} */ ...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), ms);
  };
}

/**
 * Calls at most once in a while, and once more after the last time.
 * @param {number} ms @param {() => void} work
 */
export function throttle(ms, work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      work();
    }, ms);
  };
}

/** The name of the view, in the tab. @param {string} words */
export function setTitle(words) {
  document.title = visible(`${cut(words, 120)} · Windlass`);
}
