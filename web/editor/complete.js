// Completion: keys that the schema of definitions has at this place, names of known actions, and
// ids of nodes where one is meant.
import { bodyOf } from '../graph/body.js';
import { get } from '../lib/api.js';

/** @typedef {{ label: string, insert: string, help: string }} Proposal */

/** @type {Promise<{ schemas: any, actions: any[] }> | null} */
let known = null;

/** The schema comes from the API's own description. */
export function knowledge() {
  known ??= Promise.all([get('/api/openapi.json'), get('/api/v1/actions').catch(() => ({ items: [] }))]).then(([doc, actions]) => ({
    schemas: doc.components?.schemas ?? {},
    actions: actions.items,
  }));
  return known;
}

/** What is being written: the word before the cursor, the keys above it, and whether it is a key or a value. @param {string} text @param {number} at @param {'json' | 'yaml'} language */
export function context(text, at, language) {
  const before = text.slice(0, at);
  return language === 'yaml' ? yamlContext(before) : jsonContext(before);
}

/** @param {string} before */
function yamlContext(before) {
  const lines = before.split('\n');
  const line = lines.at(-1) ?? '';
  const found = /^(\s*(?:- )*)(?:([\w-]+):\s*)?(?:[[{].*?)?["']?([\w.$-]*)$/.exec(line);
  if (!found) return null;
  let indent = found[1].replaceAll('-', ' ').length;
  /** @type {string[]} */
  const path = [];
  for (let i = lines.length - 2; i >= 0; i--) {
    const key = /^(\s*(?:- )*)([\w-]+):/.exec(lines[i]);
    if (!key) continue;
    const own = key[1].replaceAll('-', ' ').length;
    if (own < indent) {
      path.unshift(key[2]);
      indent = own;
      if (key[1].includes('-')) indent = key[1].indexOf('-');
    }
  }
  return { word: found[3], key: found[2] ?? null, path, quote: '' };
}

/** @param {string} before */
function jsonContext(before) {
  /** @type {{ key: string | null, list: boolean }[]} */
  const stack = [];
  let key = null;
  let wantsValue = false;
  for (const token of before.matchAll(/"(?:[^"\\\n]|\\.)*("?)|[{}[\],:]/g)) {
    const text = token[0];
    if (text[0] === '"') {
      if (!token[1]) {
        const top = stack.at(-1);
        return {
          word: text.slice(1),
          key: wantsValue || top?.list ? (key ?? top?.key ?? null) : null,
          path: stack.flatMap((s) => (s.key ? [s.key] : [])),
          quote: '"',
        };
      }
      if (!wantsValue) key = text.slice(1, -1);
    } else if (text === ':') wantsValue = true;
    else if (text === '{' || text === '[') {
      stack.push({ key: wantsValue || stack.at(-1)?.list ? key : null, list: text === '[' });
      wantsValue = false;
      if (text === '{') key = null;
    } else if (text === '}' || text === ']') {
      stack.pop();
      wantsValue = false;
    } else {
      wantsValue = false;
    }
  }
  return null;
}

/** @param {any} schemas @param {any} schema @param {number} [depth] @returns {any} */
function resolved(schemas, schema, depth = 0) {
  if (!schema || typeof schema !== 'object' || depth > 8) return {};
  if (schema.$ref) return resolved(schemas, schemas[schema.$ref.split('/').at(-1)], depth + 1);
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice) {
    const all = choice.map((/** @type {any} */ one) => resolved(schemas, one, depth + 1));
    return (
      all.find((/** @type {any} */ one) => one.properties) ?? {
        enum: all.flatMap((/** @type {any} */ one) => one.enum ?? (one.const !== undefined ? [one.const] : [])),
      }
    );
  }
  if (schema.type === 'array' || schema.items) return resolved(schemas, schema.items, depth + 1);
  return schema;
}

/** @param {string} text @param {number} at @param {'json' | 'yaml'} language @param {any} draft @returns {Promise<{ word: string, proposals: Proposal[], quote: string }>} */
export async function proposals(text, at, language, draft) {
  const none = { word: '', proposals: [], quote: '' };
  const here = context(text, at, language);
  if (!here) return none;
  const { schemas, actions } = await knowledge();
  if (here.path.at(-1) === 'parameters') return parametersOf(here, actionsAt(text.slice(0, at), draft, actions), none);
  let schema = resolved(schemas, schemas.Definition);
  for (const key of here.path) {
    const next = schema.properties?.[key];
    if (!next) return none;
    schema = resolved(schemas, next);
  }
  /** @type {Proposal[]} */
  let list;
  const ids = () =>
    /** @type {any[]} */ (draft?.nodes ?? []).map((node) => ({
      label: String(node?.id ?? ''),
      insert: String(node?.id ?? ''),
      help: String(node?.actionType ?? ''),
    }));
  if (here.key === 'actionType') list = actions.map((action) => ({ label: action.name, insert: action.name, help: action.description }));
  else if (['targetNode', 'dependsOn', 'onFailure', 'startNode', 'default'].includes(here.key ?? '')) list = ids();
  else if (here.key) {
    const value = resolved(schemas, schema.properties?.[here.key]);
    const choices = value.enum ?? (value.type === 'boolean' ? [true, false] : []);
    list = choices.map((/** @type {any} */ choice) => ({ label: String(choice), insert: String(choice), help: '' }));
  } else {
    list = Object.entries(schema.properties ?? {}).map(([name, inner]) => ({
      label: name,
      insert: language === 'yaml' ? `${name}: ` : `${name}": `,
      help: String(/** @type {any} */ (inner).description ?? '').split('\n')[0],
    }));
  }
  return { word: here.word, quote: here.quote, proposals: fit(list, here.word) };
}

/**
 * The action of the node whose text is being written, which is the last one that was named; all of
 * them, if it has none yet.
 * @param {string} before @param {any} draft @param {any[]} actions
 */
function actionsAt(before, draft, actions) {
  const id = [...before.matchAll(/["']?\bid["']?\s*:\s*["']?([\w-]+)/g)].at(-1)?.[1];
  const own = actions.filter((action) => action.name === nodeNamed(draft?.nodes, id)?.actionType);
  return own.length ? own : actions;
}

/** A node of a draft, in whatever body it is. @param {any} nodes @param {string | undefined} id @returns {any} */
function nodeNamed(nodes, id) {
  for (const node of Array.isArray(nodes) ? nodes : []) {
    const found = node?.id === id ? node : nodeNamed(bodyOf(node)?.nodes, id);
    if (found) return found;
  }
  return null;
}

/** @param {{ word: string, path: string[], key: string | null, quote: string }} here @param {any[]} actions @param {any} none */
function parametersOf(here, actions, none) {
  if (here.key) return none;
  const names = new Map(
    actions.flatMap((action) =>
      Object.entries(action.parameters?.properties ?? {}).map(([name, schema]) => [
        name,
        String(/** @type {any} */ (schema)?.description ?? ''),
      ]),
    ),
  );
  return {
    word: here.word,
    quote: here.quote,
    proposals: fit(
      [...names].map(([name, help]) => ({ label: name, insert: here.quote ? `${name}": ` : `${name}: `, help: help.split('\n')[0] })),
      here.word,
    ),
  };
}

/** @param {Proposal[]} list @param {string} word */
function fit(list, word) {
  const needle = word.toLowerCase();
  return list
    .filter((item) => item.label.toLowerCase().includes(needle) && item.label !== word)
    .sort((a, b) => Number(b.label.toLowerCase().startsWith(needle)) - Number(a.label.toLowerCase().startsWith(needle)))
    .slice(0, 12);
}
