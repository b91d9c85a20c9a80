/**
 * Pictures of the page for the documentation, of `windlass dev --demo`:
 * `node web/tests/screenshots.mjs --binary PATH --modules DIR --out docs/images`.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** @param {string} name */
function given(name) {
  const at = process.argv.indexOf(name);
  if (at < 0) throw new Error(`${name} is missing`);
  return resolve(process.argv[at + 1]);
}

const { chromium } = createRequire(join(given('--modules'), 'x.js'))('playwright-core');
const out = given('--out');
const directory = mkdtempSync(join(tmpdir(), 'windlass-pictures-'));
const port = 7499;
const server = spawn(given('--binary'), ['dev', '--demo', '--no-open', '--data-dir', directory, '--listen', `127.0.0.1:${port}`], {
  stdio: 'ignore',
});
const url = `http://127.0.0.1:${port}`;
try {
  mkdirSync(out, { recursive: true });
  /** @type {any[]} */
  let items = [];
  while (items.filter((run) => run.status === 'Failed' && run.labels.demo === 'failed').length === 0) {
    await new Promise((done) => setTimeout(done, 200));
    items = await fetch(`${url}/api/v1/executions`)
      .then((answer) => answer.json())
      .then(
        (answer) => answer.items,
        () => [],
      );
  }
  const failed = items.find((run) => run.labels.demo === 'failed' && run.requestId === 'demo').executionId;
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu'],
  });
  for (const [name, path, scheme] of [
    ['runs', '/', 'light'],
    ['run', `/runs/${failed}?open=pay&node=pay`, 'dark'],
  ]) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: scheme });
    await page.goto(url + path);
    await page.waitForLoadState('networkidle');
    await page.screenshot({ path: join(out, `page-${name}.png`) });
  }
  await browser.close();
} finally {
  server.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true });
}
