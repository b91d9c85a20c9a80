// A form from a JSON Schema: objects, lists, choices, texts, numbers, yes or no. What it does not
// know is a field for JSON, and every form can be switched to JSON.
import { fill, h } from '../lib/dom.js';
import { EDITABLE, largeField } from './large-field.js';

/** @typedef {{ element: HTMLElement, read: () => any }} Part */

let ids = 0;

/** @param {string} title @param {any} value @param {() => void} changed @returns {Part} */
export function jsonField(title, value, changed) {
  const id = `field-${++ids}`;
  const text = value === undefined ? '' : JSON.stringify(value, null, 2);
  if (text.length > EDITABLE) return largeField(title, value, text, () => jsonField(title, undefined, changed), changed);
  const area = h('textarea', {
    id,
    class: 'mono',
    rows: String(Math.min(14, Math.max(3, text.split('\n').length))),
    spellcheck: 'false',
    value: text,
  });
  area.addEventListener('input', changed);
  return {
    element: h('div', { class: 'field' }, h('label', { for: id }, title), area),
    read: () => {
      if (!area.value.trim()) return null;
      try {
        return JSON.parse(area.value);
      } catch (error) {
        throw new Error(`${title}: ${error instanceof Error ? error.message : 'not JSON'}`);
      }
    },
  };
}

/** @param {any} schema @param {any} value @param {() => void} changed @param {string} [title] @returns {Part} */
export function schemaForm(schema, value, changed, title = '') {
  const box = h('div', { class: 'schema-form' });
  let asJson = false;
  /** @type {Part} */
  let part = partOf(schema, value ?? initial(schema), schema?.title ?? title, changed, 0, { fresh: value === undefined, required: true });
  const swap = h('button', { type: 'button', class: 'link' }, 'Edit as JSON');
  const draw = () => fill(box, h('div', { class: 'block-tools' }, swap), part.element);
  swap.addEventListener('click', () => {
    let now;
    try {
      now = part.read();
    } catch {
      return;
    }
    asJson = !asJson;
    part = asJson
      ? jsonField(title || 'Value', now, changed)
      : partOf(schema, now, schema?.title ?? title, changed, 0, { fresh: false, required: true });
    swap.textContent = asJson ? 'Edit as a form' : 'Edit as JSON';
    draw();
    changed();
  });
  draw();
  return { element: box, read: () => part.read() };
}

/** @param {any} schema @returns {any} */
function initial(schema) {
  if (!schema || typeof schema !== 'object') return undefined;
  if (schema.default !== undefined) return schema.default;
  if (schema.examples?.[0] !== undefined) return schema.examples[0];
  return typeOf(schema) === 'object' ? {} : undefined;
}

/** @param {any} schema */
function typeOf(schema) {
  const type = Array.isArray(schema?.type) ? schema.type.find((/** @type {string} */ t) => t !== 'null') : schema?.type;
  if (type) return type;
  if (schema?.properties) return 'object';
  return schema?.enum ? 'enum' : '';
}

/**
 * `fresh` values get their defaults; what is edited stays as it is.
 * @param {any} schema @param {any} value @param {string} title @param {() => void} changed @param {number} depth @param {{ fresh: boolean, required: boolean }} how @returns {Part}
 */
function partOf(schema, value, title, changed, depth, how) {
  const type = typeOf(schema);
  if (typeof value === 'string' && value.length > EDITABLE)
    return largeField(title, value, value, () => partOf(schema, undefined, title, changed, depth, how), changed);
  if (Array.isArray(schema?.enum)) return choice(schema, value, title, changed);
  if (depth < 6 && type === 'object' && schema.properties) return object(schema, value, title, changed, depth, how);
  if (depth < 6 && type === 'array' && schema.items && typeof schema.items === 'object')
    return list(schema, value, title, changed, depth, how);
  if (type === 'boolean') return yesNo(schema, value, title, changed, how);
  if (type === 'string' || type === 'integer' || type === 'number') return line(schema, type, value, title, changed);
  return jsonField(title || 'Value', value ?? null, changed);
}

/** @param {string} id @param {string} title @param {any} schema @param {HTMLElement} input */
function field(id, title, schema, input) {
  return h(
    'div',
    { class: 'field' },
    h('label', { for: id }, title),
    input,
    schema.description ? h('span', { class: 'help' }, schema.description) : null,
  );
}

/** @param {any} schema @param {any} value @param {string} title @param {() => void} changed @returns {Part} */
function choice(schema, value, title, changed) {
  const id = `field-${++ids}`;
  const select = h(
    'select',
    { id, on: { change: changed } },
    h('option', { value: '' }, '–'),
    schema.enum.map((/** @type {any} */ item, /** @type {number} */ i) =>
      h('option', { value: String(i) }, typeof item === 'string' ? item : JSON.stringify(item)),
    ),
  );
  const at = schema.enum.findIndex((/** @type {any} */ item) => JSON.stringify(item) === JSON.stringify(value));
  select.value = at < 0 ? '' : String(at);
  return { element: field(id, title, schema, select), read: () => (select.value === '' ? undefined : schema.enum[Number(select.value)]) };
}

/** @param {any} schema @param {any} value @param {string} title @param {() => void} changed @param {{ required: boolean }} how @returns {Part} */
function yesNo(schema, value, title, changed, how) {
  const box = h('input', { type: 'checkbox', on: { change: changed } });
  box.checked = value === true;
  return {
    element: h(
      'div',
      { class: 'field' },
      h('label', null, box, title),
      schema.description ? h('span', { class: 'help' }, schema.description) : null,
    ),
    read: () => (box.checked || how.required || value !== undefined ? box.checked : undefined),
  };
}

/** @param {any} schema @param {string} type @param {any} value @param {string} title @param {() => void} changed @returns {Part} */
function line(schema, type, value, title, changed) {
  const id = `field-${++ids}`;
  const text = value === undefined || value === null ? '' : String(value);
  const long = type === 'string' && (text.length > 80 || text.includes('\n'));
  const input = long
    ? h('textarea', { id, value: text, rows: '4' })
    : h('input', { id, type: 'text', inputmode: type === 'string' ? null : 'decimal', value: text, spellcheck: 'false' });
  input.addEventListener('input', changed);
  return {
    element: field(id, title, schema, input),
    read: () => {
      if (input.value === '') return type === 'string' && text !== '' ? '' : undefined;
      if (type === 'string') return input.value;
      const number = Number(input.value);
      if (!Number.isFinite(number) || (type === 'integer' && !Number.isInteger(number)))
        throw new Error(`${title}: ${input.value} is not ${type === 'integer' ? 'a whole number' : 'a number'}.`);
      return number;
    },
  };
}

/** @param {any} schema @param {any} value @param {string} title @param {() => void} changed @param {number} depth @param {{ fresh: boolean }} how @returns {Part} */
function object(schema, value, title, changed, depth, how) {
  const known = value && typeof value === 'object' && !Array.isArray(value) ? value : {};
  const required = new Set(schema.required ?? []);
  const parts = Object.entries(schema.properties).map(([key, inner]) => {
    const one = /** @type {any} */ (inner);
    return /** @type {[string, Part]} */ ([
      key,
      partOf(
        one,
        known[key] ?? (how.fresh ? initial(one) : undefined),
        `${one?.title ?? key}${required.has(key) ? '' : ' (optional)'}`,
        changed,
        depth + 1,
        { fresh: how.fresh, required: required.has(key) },
      ),
    ]);
  });
  const rest = Object.fromEntries(Object.entries(known).filter(([key]) => !(key in schema.properties)));
  const element = h(
    'fieldset',
    { class: depth ? 'field nested' : 'field' },
    title ? h('legend', null, title) : null,
    parts.map(([, part]) => part.element),
  );
  return {
    element,
    read: () => {
      /** @type {Record<string, any>} */
      const result = { ...rest };
      for (const [key, part] of parts) {
        const inner = part.read();
        if (inner !== undefined && !(inner === null && !required.has(key) && !(key in known))) result[key] = inner;
      }
      return result;
    },
  };
}

/** @param {any} schema @param {any} value @param {string} title @param {() => void} changed @param {number} depth @param {{ fresh: boolean }} how @returns {Part} */
function list(schema, value, title, changed, depth, how) {
  if (Array.isArray(value) && value.length > 12) return jsonField(title, value, changed);
  /** @type {Part[]} */
  let parts = [];
  const rows = h('div', { class: 'field nested' });
  const add = (/** @type {any} */ item) => {
    const part = partOf(schema.items, item, `${title} ${parts.length + 1}`, changed, depth + 1, { fresh: how.fresh, required: true });
    const row = h(
      'div',
      { class: 'array-item' },
      part.element,
      h(
        'button',
        {
          type: 'button',
          class: 'button small',
          'aria-label': `Remove ${title} ${parts.length + 1}`,
          on: {
            click: () => {
              parts = parts.filter((other) => other !== part);
              row.remove();
              changed();
            },
          },
        },
        '−',
      ),
    );
    parts.push(part);
    rows.append(row);
  };
  for (const item of Array.isArray(value) ? value : []) add(item);
  const more = h(
    'button',
    {
      type: 'button',
      class: 'button small',
      on: {
        click: () => {
          add(initial(schema.items));
          changed();
        },
      },
    },
    `Add to ${title}`,
  );
  return {
    element: h('fieldset', { class: 'field' }, h('legend', null, title), rows, h('div', null, more)),
    read: () => parts.map((part) => part.read()).filter((item) => item !== undefined),
  };
}
