/**
 * Writes TypeScript declarations for the schemas of an OpenAPI document: the types that the
 * page's JSDoc names. `node web/tests/types.mjs openapi.json > web/types/api.d.ts`
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @param {any} document */
export function declarations(document) {
  const parts = ['/** The shapes of the API, made from /api/openapi.json by web/tests/types.mjs. Do not edit. */\n'];
  for (const [name, schema] of Object.entries(document.components.schemas)) parts.push(`export type ${name} = ${type(schema, '')};\n`);
  return parts.join('\n');
}

/** @param {any} schema @param {string} indent @returns {string} */
function type(schema, indent) {
  if (typeof schema !== 'object' || schema === null) return 'any';
  if (schema.$ref) return schema.$ref.split('/').at(-1);
  if (schema.enum) return schema.enum.map((/** @type {any} */ value) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice) return [...new Set(choice.map((/** @type {any} */ one) => type(one, indent)))].join(' | ');
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return [...new Set(types.map((/** @type {string} */ one) => single(one, schema, indent)))].join(' | ');
}

/** @param {string | undefined} name @param {any} schema @param {string} indent */
function single(name, schema, indent) {
  if (name === 'null') return 'null';
  if (name === 'string') return 'string';
  if (name === 'boolean') return 'boolean';
  if (name === 'integer' || name === 'number') return 'number';
  if (name === 'array') return schema.items ? `(${type(schema.items, indent)})[]` : 'any[]';
  if (schema.properties) return object(schema, indent);
  if (name === 'object') return `Record<string, ${schema.additionalProperties ? type(schema.additionalProperties, indent) : 'any'}>`;
  return 'any';
}

/** @param {any} schema @param {string} indent */
function object(schema, indent) {
  const required = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(
    ([key, inner]) =>
      `${indent}  ${/^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key)}${required.has(key) ? '' : '?'}: ${type(inner, `${indent}  `)};`,
  );
  const short = `{ ${lines.map((line) => line.trim()).join(' ')} }`;
  if (short.length <= 120 && !short.includes('\n')) return short;
  return `{\n${lines.join('\n')}\n${indent}}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.stdout.write(declarations(JSON.parse(readFileSync(process.argv[2], 'utf8'))));
