/**
 * What the page says, and how it recovers, when the network, the server, the token or the run is gone.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server, launch } from './harness.mjs';
import { release } from './definitions.mjs';

/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;

before(async () => {
  chromium = await launch();
});
after(async () => {
  await chromium?.browser.close();
});

test('a browser without a network says so, keeps what it shows, and goes on when the network is back', async () => {
  const server = await Server.start();
  try {
    await server.publish(release);
    const run = await server.run('release');
    await server.until(run, (now) => now.nodes.approve?.status === 'Waiting');
    const page = await chromium.page(server);
    await page.goTo('/');
    await page.locator('.run-row').getByText("Waits for signal 'approval'").waitFor();
    await page.context().setOffline(true);
    await page.getByText('The server cannot be reached').waitFor();
    assert.equal(await page.locator('.run-row:not(.head)').count(), 1, 'the rows stay');
    await server.api('POST', `/executions/${run}/signal`, { name: 'approval', payload: { approved: true } });
    await server.until(run, (now) => now.status === 'Succeeded');
    await page.context().setOffline(false);
    await page.getByText('The server cannot be reached').waitFor({ state: 'detached' });
    await page.locator('.run-row').getByText('Succeeded').waitFor();
    assert.deepEqual(page.wrong, []);
    await page.done();
  } finally {
    await server.remove();
  }
});

test('a run that was removed while it is open is said to be, and offers no command', async () => {
  const server = await Server.start();
  try {
    await server.publish(release);
    const run = await server.run('release');
    const page = await chromium.page(server);
    await page.goTo(`/runs/${run}`);
    await page.locator('.pill.live').waitFor();
    await page.locator('.run-head').getByRole('button', { name: 'Cancel' }).waitFor();
    await server.down();
    rmSync(/** @type {string} */ (server.directory), { recursive: true });
    mkdirSync(/** @type {string} */ (server.directory));
    await server.up();
    await page.getByText('removed from the server').waitFor();
    await page.locator('.run-head').getByRole('button', { name: 'Cancel' }).waitFor({ state: 'detached' });
    await page.reload();
    await page.getByText('Not found').waitFor();
    await page.getByText('removed by retention').waitFor();
    assert.deepEqual(page.wrong, []);
    await page.done();
  } finally {
    await server.remove();
  }
});

test('a token that expires leads to the sign-in, and a new one to the same address', async () => {
  const server = await Server.start();
  try {
    await server.down();
    const keys = join(/** @type {string} */ (server.directory), 'keys.jwks.json');
    const token = (/** @type {string} */ lifetime) =>
      execFileSync(/** @type {string} */ (process.env.WINDLASS_BIN), ['token', '--scope', 'admin', '--lifetime', lifetime, '--key', keys], {
        cwd: server.directory,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
        .trim()
        .split('\n')
        .at(-1) ?? '';
    server.token = token('1h');
    server.words = ['--auth-keys', keys];
    await server.up();
    await server.publish(release);
    const run = await server.run('release');
    const page = await chromium.page(server);
    await page.goTo(`/runs/${run}?node=approve`);
    await page.getByLabel('Token').fill(token('1h'));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('.pill.live').waitFor();
    // What an expired token gets: the server refuses the one that the page holds.
    await page.evaluate(() => sessionStorage.setItem('windlass.token', 'e30.e30.e30'));
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    assert.match(page.url(), /\/runs\/.*\?node=approve$/, 'the address stays');
    await page.getByLabel('Token').fill(token('1m'));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.locator('.node-panel').getByRole('heading', { name: 'approve' }).waitFor();
    await page.getByText('Your token expires in').waitFor();
    assert.deepEqual(page.wrong, []);
    await page.done();
  } finally {
    await server.remove();
  }
});
