/**
 * The page's modules agree with the types of the API that it talks to, and stay small.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Server } from './harness.mjs';
import { declarations } from './types.mjs';

const web = dirname(dirname(fileURLToPath(import.meta.url)));

/** @param {string} folder @returns {string[]} */
function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) return name === 'tests' || name === 'types' || name === 'node_modules' ? [] : files(path);
    return /\.(js|css|html|svg)$/.test(name) ? [path] : [];
  });
}

test('the types are those of the server', async () => {
  const server = await Server.start();
  try {
    const document = await fetch(`${server.url}/api/openapi.json`).then((answer) => answer.json());
    assert.equal(
      readFileSync(join(web, 'types', 'api.d.ts'), 'utf8'),
      declarations(document),
      'make them again: node web/tests/types.mjs openapi.json > web/types/api.d.ts',
    );
  } finally {
    await server.remove();
  }
});

test('tsc finds no fault', () => {
  const modules = createRequire(join(process.env.PAGE_MODULES ?? '', 'x.js'));
  const tsc = join(dirname(modules.resolve('typescript/package.json')), 'bin', 'tsc');
  try {
    execFileSync(process.execPath, [tsc, '--noEmit', '-p', join(web, 'tsconfig.json')], { encoding: 'utf8' });
  } catch (error) {
    assert.fail(/** @type {any} */ (error).stdout);
  }
});

test('the whole page has at most 150 KiB compressed, modules at most 300 lines', () => {
  const all = files(web);
  const size = all.reduce((sum, path) => sum + gzipSync(readFileSync(path), { level: 9 }).length, 0);
  assert.ok(size <= 150 * 1024, `${size} bytes`);
  for (const path of all) assert.ok(readFileSync(path, 'utf8').split('\n').length <= 301, path);
});

test('no module writes markup or calls another host', () => {
  for (const path of files(web).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(path, 'utf8');
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, path);
    assert.doesNotMatch(text.replaceAll('http://www.w3.org/2000/svg', ''), /https?:\/\//, path);
  }
});
