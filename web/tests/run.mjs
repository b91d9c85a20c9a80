/**
 * The page's tests: `node web/tests/run.mjs --binary PATH --modules DIR`. The folder has
 * playwright-core, axe-core and typescript in it; Chromium is the system's. Installs nothing.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
/** @param {string} name */
const given = (name) => {
  const at = process.argv.indexOf(name);
  return at > 0 ? process.argv[at + 1] : undefined;
};
const binary = given('--binary');
const modules = given('--modules');
if (!binary || !modules) {
  console.error('usage: node web/tests/run.mjs --binary PATH --modules node_modules [--only FILE] [--web DIR]');
  process.exit(2);
}
// Modules of a folder instead of those in the binary: to work on them without a build.
const folder = given('--web');
const names = given('--only') ? [/** @type {string} */ (given('--only'))] : ['types', 'opening', 'stories', 'list', 'acting', 'travel', 'timeline', 'graph', 'views', 'keyboard', 'hostile', 'recovery', 'letters', 'operating', 'living'];
const done = spawnSync(
  process.execPath,
  [
    '--test',
    '--test-concurrency=1',
    '--test-reporter=spec',
    // Of a file with all its tests, servers and browsers, on a slow machine.
    '--test-timeout=900000',
    ...names.map((name) => join(here, `${name}.test.mjs`)),
  ],
  {
    stdio: 'inherit',
    env: { ...process.env, WINDLASS_BIN: resolve(binary), PAGE_MODULES: resolve(modules), ...(folder ? { PAGE_WEB: resolve(folder) } : {}) },
  },
);
process.exit(done.status ?? 1);
