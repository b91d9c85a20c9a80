// A value that is too large for a text field, which would stop the page at every key: it is sent as
// it is, can be read, and can be replaced by another.
import { fill, h } from '../lib/dom.js';
import { bytes } from '../lib/text.js';
import { showWhole } from './value.js';

/** The longest text that a field takes. */
export const EDITABLE = 200_000;

/**
 * @param {string} title @param {any} value @param {string} text the value as text
 * @param {() => import('./schema-form.js').Part} instead the field of the value that replaces it
 * @param {() => void} changed
 * @returns {import('./schema-form.js').Part}
 */
export function largeField(title, value, text, instead, changed) {
  const element = h('div', { class: 'field' });
  /** @type {import('./schema-form.js').Part | null} */
  let other = null;
  const keep = () => {
    other = null;
    fill(
      element,
      h('span', { class: 'label' }, title),
      h('span', { class: 'muted' }, `${bytes(text.length)} is too large to edit here, and is sent as it is.`),
      h(
        'div',
        { class: 'buttons' },
        h('button', { type: 'button', class: 'button small', on: { click: () => showWhole(title, text) } }, 'Show'),
        h('button', { type: 'button', class: 'button small', on: { click: replace } }, 'Replace'),
      ),
    );
  };
  const replace = () => {
    other = instead();
    const back = () => {
      keep();
      changed();
    };
    fill(element, other.element, h('button', { type: 'button', class: 'link', on: { click: back } }, 'Keep what it was'));
    changed();
  };
  keep();
  return { element, read: () => (other ? other.read() : value) };
}
