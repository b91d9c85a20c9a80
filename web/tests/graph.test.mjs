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

const looped = (/** @type {number} */ version) => ({
  id: 'looped',
  nodes: [
    { id: 'first', actionType: 'core.echo' },
    {
      id: 'again',
      forEach: {
        items: [1],
        body: {
          nodes: [
            { id: 'kept', actionType: 'core.echo', parameters: { version: String(version) } },
            version === 1 ? { id: 'old', actionType: 'core.echo', dependsOn: ['kept'] } : { id: 'new', actionType: 'core.echo', dependsOn: ['kept'] },
          ],
        },
      },
      dependsOn: ['first'],
    },
  ],
});

/** The boxes as they are read, and which is chosen. @param {any} page @param {string} words */
const box = (page, words) => page.locator('w-graph [role="option"]', { hasText: words });
/** @param {any} page @param {string} words */
const chosen = (page, words) => page.locator('w-graph [role="option"][aria-selected="true"]', { hasText: words }).waitFor({ state: 'attached' });

test('the keyboard alone opens a loop of a workflow, of a difference and of a draft', async () => {
  for (const version of [1, 2]) await server.publish(looped(version));
  const page = await chromium.page(server);
  const into = async (/** @type {string} */ inner) => {
    await box(page, 'first').waitFor({ state: 'attached' });
    await page.locator('w-graph [role="listbox"]').focus();
    await page.keyboard.press('ArrowDown');
    await chosen(page, 'first');
    await page.keyboard.press('ArrowDown');
    await chosen(page, 'again');
    await page.keyboard.press('Space');
    await box(page, inner).waitFor({ state: 'attached' });
    await chosen(page, 'again');
    assert.equal(await page.evaluate(() => document.activeElement?.matches('w-graph [role="listbox"]')), true, 'the focus stays in the graph');
  };
  await page.goTo('/workflows/looped');
  await into('new');
  await page.waitForURL(/[?&]node=again.*open=again|open=again.*node=again/);
  await page.goTo('/workflows/looped?tab=versions');
  await into('old');
  await box(page, 'new, added').waitFor({ state: 'attached' });
  await box(page, 'old, removed').waitFor({ state: 'attached' });
  await box(page, 'kept, parameters').waitFor({ state: 'attached' });
  await page.waitForURL(/open=again/);
  await page.keyboard.press('Space');
  await box(page, 'kept').waitFor({ state: 'detached' });
  // In the editor too; Enter goes to the text, and so does a click.
  await page.goTo('/editor?workflow=looped');
  await into('new');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => {
    const area = /** @type {HTMLTextAreaElement} */ (document.activeElement);
    return area.matches('.code textarea') && area.value.slice(area.selectionStart).split('\n')[0].includes('"again"');
  });
  assert.deepEqual(page.wrong, []);
  await page.done();
});

/** A loop in a loop, and a fan-out that is drawn as one box. */
const hiding = {
  id: 'hiding',
  nodes: [
    { id: 'start', actionType: 'core.echo' },
    { id: 'oops', actionType: 'core.fail', parameters: { code: 'AS_TOLD', retriable: false }, onFailure: 'tidy' },
    { id: 'tidy', actionType: 'core.echo' },
    {
      id: 'outer',
      forEach: {
        items: [1],
        body: {
          nodes: [
            { id: 'inner', forEach: { items: [1], body: { nodes: [{ id: 'needle-deep', actionType: 'core.echo' }] } } },
            { id: 'needle-flat', actionType: 'core.echo' },
          ],
        },
      },
      dependsOn: ['start'],
    },
    ...Array.from({ length: 60 }, (_, i) => ({ id: i === 41 ? 'needle-fan' : `fan-${i}`, actionType: 'core.echo', dependsOn: ['start'] })),
  ],
};

test('a node in a closed loop or a group is found, and Enter opens what hides it', async () => {
  await server.publish(hiding);
  const run = await server.run('hiding');
  await server.until(run, (now) => now.status === 'Succeeded');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  await box(page, 'start').waitFor({ state: 'attached' });
  assert.equal(await box(page, 'needle').count(), 0, 'none of them has a box');
  const find = page.getByLabel('Find a node in the graph');
  const count = page.locator('.find-count');
  await find.fill('needle');
  await count.getByText('3 nodes', { exact: true }).waitFor();
  const hits = ['needle-fan', 'outer/needle-flat', 'outer/inner/needle-deep'];
  for (const i of hits.keys()) {
    await find.press('Enter');
    await count.getByText(`${i + 1} of 3`, { exact: true }).waitFor();
    await page.waitForURL((/** @type {URL} */ url) => hits.includes(url.searchParams.get('node') ?? ''));
    const node = new URL(page.url()).searchParams.get('node') ?? '';
    await chosen(page, node.split('/').at(-1) ?? '');
    hits[hits.indexOf(node)] = `${node} was shown`;
  }
  assert.ok(hits.every((hit) => hit.endsWith('was shown')), 'each of them once');
  await find.press('Enter');
  await count.getByText('1 of 3', { exact: true }).waitFor();
  await find.fill('nothing like it');
  await count.getByText('no such node', { exact: true }).waitFor();
  await find.fill('');
  await count.filter({ hasText: /^$/ }).waitFor({ state: 'attached' });
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('what is looked for in the graph belongs to the address', async () => {
  const { items } = await server.api('GET', '/executions?workflow=hiding&limit=1');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${items[0].executionId}`);
  await page.getByLabel('Find a node in the graph').fill('needle');
  await page.waitForURL(/find=needle/);
  await page.goTo(`/runs/${items[0].executionId}?find=fan-1`);
  await page.locator('.find-count').getByText('11 nodes', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Find a node in the graph').inputValue(), 'fan-1');
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the graph keeps what the run says of a node when it learns the paths inside groups', async () => {
  const { items } = await server.api('GET', '/executions?workflow=hiding&limit=1');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${items[0].executionId}?find=needle`);
  await page.locator('.find-count').getByText('3 nodes', { exact: true }).waitFor();
  await box(page, 'oops, Failed, AS_TOLD').waitFor({ state: 'attached' });
  assert.deepEqual(page.wrong, []);
  await page.done();
});
