/**
 * A run that crashes the server becomes a dead letter; the page requeues it, and purges it when it comes back.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, launch } from './harness.mjs';

test('a dead letter is requeued, and purged when it comes back', async () => {
  const server = await Server.start([], { WINDLASS_MAX_POISON_RETRIES: '1', WINDLASS_POISON_DELAY: '1s', WINDLASS_POISON_TRIAL: '60s' });
  const chromium = await launch();
  try {
    await server.publish({
      id: 'slow',
      nodes: [{ id: 'hold', actionType: 'core.sleep', parameters: { ms: 600_000 }, policies: { timeoutMs: 900_000 } }],
    });
    const run = await server.run('slow');
    await crash(server, run);
    const page = await chromium.page(server);
    await page.goTo('/operations?tab=dead-letters');
    await page.getByRole('button', { name: 'Requeue', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Requeue' }).click();
    await page.getByText('No dead letters').waitFor();
    await server.until(run, (now) => now.status === 'Running');
    await crash(server, run);
    await page.goTo('/operations?tab=dead-letters');
    await page.getByRole('button', { name: 'Purge', exact: true }).click();
    await page.getByRole('dialog').getByText('DEAD_LETTERED').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Purge' }).click();
    await page.getByText('No dead letters').waitFor();
    const ended = await server.until(run, (now) => now.status === 'Failed');
    assert.equal(ended.error.code, 'DEAD_LETTERED');
    assert.deepEqual(page.wrong, []);
  } finally {
    await chromium.browser.close();
    await server.remove();
  }
});

/** Until the run is a dead letter. @param {Server} server @param {string} run */
async function crash(server, run) {
  for (let crash = 0; crash < 4; crash++) {
    await server.until(run, (now) => now.nodes.hold?.status === 'Running');
    await server.down('SIGKILL');
    await server.up();
    const letters = await server.api('GET', '/dead-letters');
    if (letters.items.length) break;
  }
}
