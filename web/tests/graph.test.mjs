/**
 * The graph of a run, of a workflow and in the editor: what is hidden in loops and groups is counted,
 * found and reached, with the keyboard too.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, counted, launch } from './harness.mjs';

const ITEMS = 130;

/** All items of its loop fail at the second node. */
const batch = {
  id: 'batch',
  nodes: [
    {
      id: 'each',
      forEach: {
        items: Array.from({ length: ITEMS }, (_, i) => i),
        onItemFailure: 'collect',
        body: {
          nodes: [
            { id: 'prepare', actionType: 'core.echo', edges: [{ targetNode: 'charge' }] },
            { id: 'charge', actionType: 'core.fail', parameters: { code: 'CARD_DECLINED', retriable: false }, edges: [{ targetNode: 'report' }] },
            { id: 'report', actionType: 'core.echo' },
          ],
        },
      },
    },
  ],
};

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;

before(async () => {
  server = await Server.start();
  chromium = await launch();
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

/** Reads runs without their nodes, as those that are large are. @param {any} page @param {string} run */
async function asLarge(page, run) {
  await page.route(
    (/** @type {URL} */ url) => url.pathname.endsWith(`/executions/${run}`) && !url.searchParams.has('nodes'),
    (/** @type {any} */ route) => {
      const url = new URL(route.request().url());
      url.searchParams.set('nodes', 'none');
      return route.continue({ url: url.href });
    },
  );
}

test('all failed iterations are counted, and what failed in the first of them is listed', async () => {
  await server.publish(batch);
  const run = await server.run('batch');
  await server.until(run, (now) => now.status === 'Succeeded');
  const page = await chromium.page(server);
  await asLarge(page, run);
  await page.goTo(`/runs/${run}?node=each`);
  await page.locator('w-graph [role="option"]', { hasText: `${ITEMS} of ${ITEMS} done · ${ITEMS} failed` }).waitFor({ state: 'attached' });
  const panel = page.locator('.node-panel');
  await panel.getByText(`The first 100 of ${ITEMS} failed iterations`).waitFor();
  const links = panel.locator('.members a');
  await counted(links, 20);
  assert.deepEqual(await links.allTextContents(), Array.from({ length: 20 }, (_, i) => `[${i}]/charge`));
  await panel.getByRole('button', { name: '80 more' }).click();
  await counted(links, 40);
  await links.nth(39).click();
  await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get('node') === 'each[39]/charge');
  await panel.getByText('CARD_DECLINED').first().waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});
