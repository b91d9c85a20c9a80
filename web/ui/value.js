// A value as a tree that opens on demand: bounded per level, long texts cut with a way to the
// whole, deep ones opened step by step. Never more on the page than a person can read.
import { fill, h } from '../lib/dom.js';
import { bytes, number, visible } from '../lib/text.js';
import { copyButton } from './bits.js';
import { openDialog } from './dialog.js';

const PER_LEVEL = 100;
const TEXT = 300;
const WHOLE = 200_000;

/** @param {any} value @param {{ open?: number, name?: string }} [how] */
export function valueView(value, how = {}) {
  const element = h('div', { class: 'value' });
  element.append(branch(value, how.name ?? null, how.open ?? 2));
  return element;
}

/** A titled value with copy and the whole. @param {string} title @param {any} value */
export function valueBlock(title, value) {
  if (value === undefined) return null;
  return h(
    'section',
    { class: 'sect' },
    h(
      'div',
      { class: 'block-head' },
      h('h3', null, title),
      h(
        'span',
        { class: 'block-tools' },
        value !== null && typeof value === 'object'
          ? h('button', { type: 'button', class: 'link', on: { click: () => showWhole(title, JSON.stringify(value, null, 2)) } }, 'JSON')
          : null,
        copyButton(() => (typeof value === 'string' ? value : JSON.stringify(value, null, 2)), `Copy ${title.toLowerCase()}`),
      ),
    ),
    valueView(value),
  );
}

/** @param {any} value @param {string | null} name @param {number} open */
function branch(value, name, open) {
  const label = name === null ? null : h('span', { class: 'name' }, name, ': ');
  if (value === null || typeof value !== 'object') return h('div', null, label, leaf(value));
  const keys = Array.isArray(value) ? null : Object.keys(value);
  const size = keys ? keys.length : value.length;
  const summary = glimpse(value, keys) ?? (keys ? `{${number(size)}}` : `[${number(size)}]`);
  if (!size) return h('div', null, label, keys ? '{}' : '[]');
  const kids = h('div', { class: 'kids' });
  const toggle = h('button', { type: 'button', class: 'toggle', 'aria-expanded': 'false' }, label, h('span', { class: 'muted' }, summary));
  let shown = 0;
  const more = () => {
    const until = Math.min(size, shown + PER_LEVEL);
    kids.querySelector(':scope > .more')?.remove();
    for (; shown < until; shown++)
      kids.append(branch(keys ? value[keys[shown]] : value[shown], keys ? keys[shown] : String(shown), open - 1));
    if (shown < size) kids.append(h('button', { type: 'button', class: 'link more', on: { click: more } }, `${number(size - shown)} more`));
  };
  const set = (/** @type {boolean} */ on) => {
    toggle.setAttribute('aria-expanded', String(on));
    kids.hidden = !on;
    if (on && !shown) more();
  };
  toggle.addEventListener('click', () => set(toggle.getAttribute('aria-expanded') !== 'true'));
  set(open > 0 && size <= 40 && !(open < 2 && glimpse(value, keys)));
  return h('div', null, toggle, kids);
}

/** A small value in one line, if it fits. @param {any} value @param {string[] | null} keys */
function glimpse(value, keys) {
  const all = keys ? keys.map((key) => value[key]) : value;
  if (
    all.length > 6 ||
    all.some((/** @type {any} */ item) => (item !== null && typeof item === 'object') || (typeof item === 'string' && item.length > 40))
  )
    return null;
  const words = all
    .map((/** @type {any} */ item, /** @type {number} */ i) => (keys ? `${keys[i]}: ${JSON.stringify(item)}` : JSON.stringify(item)))
    .join(', ');
  return words.length > 70 ? null : keys ? `{ ${words} }` : `[ ${words} ]`;
}

/** @param {any} value */
function leaf(value) {
  if (typeof value === 'string') return textLeaf(value);
  return h('span', { class: typeof value === 'number' ? 'numb' : 'lit' }, String(value));
}

/** @param {string} value */
function textLeaf(value) {
  if (value.length <= TEXT) return h('span', { class: 'str' }, JSON.stringify(value));
  return h(
    'span',
    { class: 'str' },
    `${JSON.stringify(value.slice(0, TEXT)).slice(0, -1)}…`,
    h('button', { type: 'button', class: 'link', on: { click: () => showWhole('Value', value) } }, `all ${bytes(value.length)}`),
  );
}

/** The whole text, up to a bound; beyond it, as a file. @param {string} title @param {string} text */
export function showWhole(title, text) {
  const body = h('pre', { class: 'whole', tabindex: '0' });
  body.append(document.createTextNode(visible(text.slice(0, WHOLE))));
  const save = h('button', { type: 'button', class: 'button' }, `Save as a file (${bytes(text.length)})`);
  save.addEventListener('click', () => {
    const link = h('a', { download: 'value.json', href: URL.createObjectURL(new Blob([text])) });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  const content = h(
    'div',
    { class: 'sheet' },
    text.length > WHOLE ? h('p', { class: 'muted' }, `The first ${bytes(WHOLE)} of ${bytes(text.length)}.`) : null,
    body,
    h('div', { class: 'buttons' }, save, copyButton(text)),
  );
  openDialog(title, content, undefined, 'wide');
}

/** A message of any length, in lines. @param {string | null | undefined} text @param {number} [limit] */
export function longText(text, limit = 600) {
  if (!text) return null;
  const span = h('span', { class: 'long' });
  if (text.length <= limit) fill(span, text);
  else
    fill(
      span,
      text.slice(0, limit),
      '… ',
      h('button', { type: 'button', class: 'link', on: { click: () => showWhole('Text', text) } }, `all ${bytes(text.length)}`),
    );
  return span;
}
