// What a command's form asks for: checkboxes, nodes, signals with a form from their schema,
// values as JSON, and what a fork changes.
import { h } from '../lib/dom.js';
import { definedNode } from '../graph/body.js';
import { jsonField, schemaForm } from '../ui/schema-form.js';

/** @typedef {{ element: HTMLElement, read: () => any }} Field */

/**
 * @param {import('./commands.js').Command} command @param {import('../run/model.js').RunModel} model
 * @param {string | null} path @param {any} node @param {() => void} changed
 * @returns {Promise<Field[]>}
 */
export async function fieldsOf(command, model, path, node, changed) {
  /** @type {Field[]} */
  const fields = [];
  for (const name of command.fields) {
    if (name === 'compensate') fields.push(checkbox('compensate', 'Compensate: undo what succeeded', changed));
    else if (name === 'nodes') fields.push(path ? fixed({ nodes: [path] }) : fixed({}));
    else if (name === 'output') fields.push(output(changed));
    else if (name === 'signal') fields.push(await signal(model, path, node, changed));
    else if (name === 'compensation') fields.push(...compensation(model, changed));
    else if (name === 'fork') fields.push(...(await fork(model, path, changed)));
  }
  return fields;
}

/** @param {any} values @returns {Field} */
function fixed(values) {
  return { element: h('span', { hidden: true }), read: () => values };
}

/** @param {string} key @param {string} words @param {() => void} changed @returns {Field} */
function checkbox(key, words, changed) {
  const box = h('input', { type: 'checkbox', on: { change: changed } });
  return { element: h('label', null, box, words), read: () => (box.checked ? { [key]: true } : {}) };
}

/** @param {() => void} changed @returns {Field} */
function output(changed) {
  const field = jsonField('Output', null, changed);
  return { element: field.element, read: () => ({ output: field.read() }) };
}

/** @param {import('../run/model.js').RunModel} model @param {() => void} changed @returns {Field[]} */
function compensation(model, changed) {
  if (model.exec.compensation !== 'incomplete') return [];
  const failed = [...model.nodes].filter(([, node]) => node.compensation?.status === 'Failed');
  if (failed.length) return failed.slice(0, 50).map(([path, node]) => failedCompensation(path, node.compensation.error, changed));
  // A large run is read without its nodes.
  const make = (/** @type {string} */ key, /** @type {string} */ words) => {
    const input = h('input', { type: 'text', id: `act-${key}`, placeholder: 'node, node …', on: { input: changed } });
    return {
      element: h('div', { class: 'field' }, h('label', { for: `act-${key}` }, words), input),
      read: () => (input.value.trim() ? { [key]: input.value.split(/[\s,]+/).filter(Boolean) } : {}),
    };
  };
  return [make('retry', 'Retry the compensation of'), make('skip', 'Leave out')];
}

/** What to do about one compensation that failed. @param {string} path @param {any} error @param {() => void} changed @returns {Field} */
function failedCompensation(path, error, changed) {
  const id = `act-undo-${path}`;
  const select = h(
    'select',
    { id, on: { change: changed } },
    h('option', { value: 'retry' }, 'Try again'),
    h('option', { value: 'skip' }, 'Leave it out: count it as undone'),
    h('option', { value: '' }, 'Leave it as it is'),
  );
  return {
    element: h(
      'div',
      { class: 'field' },
      h('label', { for: id }, `Compensation of ${path}`),
      h('span', { class: 'help' }, h('code', { class: 'bad' }, error?.code ?? 'FAILED'), ' ', error?.message ?? ''),
      select,
    ),
    read: () => (select.value ? { [select.value]: [path] } : {}),
  };
}

/** @param {import('../run/model.js').RunModel} model @param {string | null} path @param {any} node @param {() => void} changed @returns {Promise<Field>} */
async function signal(model, path, node, changed) {
  const definition = await model.loadDefinition().catch(() => null);
  const waiting = [...model.nodes].filter(([, n]) => n.status === 'Waiting' && n.signal);
  const first = node?.signal ?? waiting[0]?.[1].signal ?? '';
  const name = h('input', { type: 'text', id: 'act-signal', value: first, list: 'act-signals', spellcheck: 'false' });
  const place = h('div');
  /** @type {{ element: HTMLElement, read: () => any }} */
  let form = jsonField('Payload', null, changed);
  const draw = () => {
    const at = path ?? waiting.find(([, n]) => n.signal === name.value)?.[0];
    const schema = at ? definedNode(definition, at)?.waitForSignal?.schema : null;
    form = schema ? schemaForm(schema, undefined, changed, 'Payload') : jsonField('Payload', null, changed);
    place.replaceChildren(form.element);
  };
  name.addEventListener('input', () => {
    draw();
    changed();
  });
  draw();
  const element = h(
    'div',
    { class: 'field' },
    h('label', { for: 'act-signal' }, 'Signal'),
    name,
    h(
      'datalist',
      { id: 'act-signals' },
      waiting.map(([, n]) => h('option', { value: n.signal })),
    ),
    place,
  );
  return {
    element,
    read: () => {
      if (!name.value.trim()) throw new Error('Name the signal.');
      return { name: name.value.trim(), payload: form.read() };
    },
  };
}

/** Where it starts again, and what is different. @param {import('../run/model.js').RunModel} model @param {string | null} path @param {() => void} changed @returns {Promise<Field[]>} */
async function fork(model, path, changed) {
  const top = [...model.nodes.keys()].filter((other) => !other.includes('/'));
  const failed = model.exec.error?.nodes?.filter((/** @type {string} */ n) => !n.includes('/')) ?? [];
  const chosen = path ? [path.split('/')[0].replace(/\[\d+\]$/, '')] : failed.length ? failed : top.slice(0, 1);
  const from = h('input', {
    type: 'text',
    id: 'act-from',
    value: chosen.join(', '),
    list: 'act-nodes',
    spellcheck: 'false',
  });
  const named = () => from.value.split(/[\s,]+/).filter(Boolean);
  const definition = await model.loadDefinition().catch(() => null);
  const trigger =
    definition?.triggerSchema && isObject(model.exec.trigger)
      ? schemaForm(definition.triggerSchema, model.exec.trigger, changed, 'Trigger')
      : jsonField('Trigger', model.exec.trigger, changed);
  const vars = jsonField('Variables', definition?.vars ?? {}, changed);
  const parameters = parametersOf(definition, changed);
  const varsBefore = vars.read() ?? {};
  // A form reads a value that its schema does not fit otherwise than it is: that is no change.
  const triggerBefore = readOr(trigger, model.exec.trigger);
  /** @type {Field[]} */
  const fields = [
    {
      element: h(
        'div',
        { class: 'field' },
        h('label', { for: 'act-from' }, 'From'),
        from,
        h(
          'datalist',
          { id: 'act-nodes' },
          top.map((id) => h('option', { value: id })),
        ),
        h('span', { class: 'help' }, 'These nodes and everything after them run again. Several are separated by commas.'),
      ),
      read: () => ({ from: named() }),
    },
  ];
  parameters.show(named());
  from.addEventListener('input', () => {
    parameters.show(named());
    changed();
  });
  fields.push({
    element: h(
      'div',
      { class: 'field' },
      trigger.element,
      h('details', null, h('summary', null, 'Variables and parameters'), vars.element, parameters.element),
    ),
    read: () => {
      const set = { ...differences('trigger', triggerBefore, trigger.read()), ...differences('vars', varsBefore, vars.read()) };
      Object.assign(set, parameters.read(named()));
      return Object.keys(set).length ? { set } : {};
    },
  });
  fields.push(checkbox('newest', `On the newest version instead of version ${model.exec.version}`, changed));
  if (model.exec.compensation) fields.push(checkbox('reuseCompensated', 'Reuse results that were undone', changed));
  return fields;
}

/** The most nodes whose parameters have a field. */
const MOST_PARAMETERS = 10;

/** A field for the parameters of each node that is named; what was written stays. @param {any} definition @param {() => void} changed */
function parametersOf(definition, changed) {
  const element = h('div', { class: 'stack' });
  /** @type {Map<string, { element: HTMLElement, read: () => any, before: any }>} */
  const fields = new Map();
  const fieldOf = (/** @type {string} */ id) => {
    const before = definedNode(definition, id)?.parameters ?? {};
    const field = fields.get(id) ?? { ...jsonField(`Parameters of ${id}`, before, changed), before };
    fields.set(id, field);
    return field;
  };
  const shown = (/** @type {string[]} */ ids) => ids.filter((id) => definedNode(definition, id)).slice(0, MOST_PARAMETERS);
  return {
    element,
    show: (/** @type {string[]} */ ids) => element.replaceChildren(...shown(ids).map((id) => fieldOf(id).element)),
    read: (/** @type {string[]} */ ids) =>
      Object.assign({}, ...shown(ids).map((id) => differences(`nodes.${id}.parameters`, fieldOf(id).before, fieldOf(id).read()))),
  };
}

/** @param {{ read: () => any }} part @param {any} otherwise */
function readOr(part, otherwise) {
  try {
    return part.read();
  } catch {
    return otherwise;
  }
}

/** @param {any} value */
function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Changed keys, as `--set` writes them. What that cannot say is refused: a change must not get lost.
 * @param {string} root @param {any} before @param {any} after
 */
export function differences(root, before, after) {
  /** @type {Record<string, any>} */
  const set = {};
  if (JSON.stringify(before) === JSON.stringify(after)) return set;
  if (!isObject(after) || !(isObject(before) || before === null || before === undefined))
    throw new Error(`A fork changes keys of an object, and ${root} ${isObject(before) ? 'would be none' : 'is none'}. Start a new run instead.`);
  for (const key of Object.keys(before ?? {}))
    if (!Object.hasOwn(after, key)) throw new Error(`A fork cannot take ${root}.${key} away. Set it to null, or start a new run instead.`);
  for (const key of Object.keys(after)) {
    const is = Object.hasOwn(before ?? {}, key);
    if (is && (before[key] === after[key] || JSON.stringify(before[key]) === JSON.stringify(after[key]))) continue;
    if (!key || key.includes('.'))
      throw new Error(`A fork cannot change the key ${JSON.stringify(key)} of ${root}: a dot separates keys. Start a new run instead.`);
    set[`${root}.${key}`] = after[key];
  }
  return set;
}
