/**
 * How a page opens: the view is drawn from what its first HTML has, and a page whose program does
 * not come says so.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, counted, launch, taken } from './harness.mjs';
import { billing, chargeCard, flaky, release } from './definitions.mjs';

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {string} */
let failed;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [chargeCard, billing, release, flaky]) await server.publish(definition);
  failed = await server.run('billing', { trigger: { customers: [{ id: 'a', amount: 0 }] } });
  await server.until(failed, (now) => now.status === 'Failed');
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

/** A page whose requests to the API are never answered. */
async function unanswered() {
  const page = await chromium.page(server);
  await page.route('**/api/**', () => {});
  return page;
}

test('the list is drawn from its first HTML, without an answer of the API', async () => {
  const page = await unanswered();
  await page.goTo('/');
  await page.locator('w-runs .run-row', { hasText: 'billing' }).getByText('CARD_DECLINED').waitFor();
  await page.goTo('/?workflow=release');
  await page.locator('w-runs').getByText('No run matches these filters').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a run is drawn from its first HTML, without an answer of the API', async () => {
  const page = await unanswered();
  await page.goTo(`/runs/${failed}`);
  await page.locator('.run-title').getByText('Failed').waitFor();
  await page.locator('.root-cause').getByText('CARD_DECLINED').waitFor();
  await page.locator('w-graph [role="option"]', { hasText: 'Charge each customer, Failed' }).waitFor({ state: 'attached' });
  await page.locator('.tl-row', { hasText: 'Charge each customer' }).waitFor();
  await page.locator('.event-kind', { hasText: 'RunFinished' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a run with large values is drawn from its first HTML without them, and offers commands when it has them', async () => {
  const large = await server.run('flaky', { trigger: { text: 'x'.repeat(200_000) } });
  await server.until(large, (now) => now.status === 'Failed');
  const page = await unanswered();
  await page.goTo(`/runs/${large}`);
  await page.locator('.run-title').getByText('Failed').waitFor();
  await page.locator('.event-kind', { hasText: 'RunFinished' }).waitFor();
  const fork = page.locator('.run-head').getByRole('button', { name: 'Fork' });
  assert.equal(await fork.count(), 0, 'a fork needs the trigger');
  await page.unroute('**/api/**');
  await page.reload();
  await fork.waitFor();
  await page.locator('.node-panel').getByRole('heading', { name: 'Trigger' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the data of the first HTML is of its address: another one asks for its own', async () => {
  const page = await chromium.page(server);
  // What is asked about the rows of one list is answered when another list is there.
  let answer = () => {};
  const held = new Promise((resolve) => (answer = () => resolve(undefined)));
  await page.route('**/workflows/billing/statistics*', async (/** @type {any} */ route) => {
    await held;
    await route.continue();
  });
  await page.goTo('/?workflow=release');
  const none = page.locator('w-runs').getByText('No run matches these filters');
  await none.waitFor();
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  const asked = page.waitForRequest('**/workflows/billing/statistics*');
  await page.locator('w-runs .run-row', { hasText: 'billing' }).waitFor();
  await asked;
  await page.goBack();
  await none.waitFor();
  const answered = page.waitForResponse('**/workflows/billing/statistics*');
  answer();
  await (await answered).finished();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
  assert.equal(await none.count(), 1);
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a page whose program cannot be loaded says so, and one whose program is there does not', async () => {
  const page = await chromium.page(server);
  await page.route('**/app.js', (/** @type {any} */ route) => route.abort());
  await page.goTo('/');
  const notice = page.getByText('The program of this page could not be loaded');
  await notice.waitFor();
  // What the server wrote can be read meanwhile.
  await page.getByRole('row', { name: /Failed.*billing/ }).waitFor();
  await page.unroute('**/app.js');
  await page.getByRole('link', { name: 'Reload the page' }).click();
  await taken(page);
  await notice.waitFor({ state: 'detached' });
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('runs that no process executes are listed alone, with what is awaited', async () => {
  const crashed = await Server.start([], { WINDLASS_MAX_POISON_RETRIES: '5', WINDLASS_POISON_DELAY: '600s', WINDLASS_POISON_TRIAL: '600s' });
  try {
    await crashed.publish(release);
    await crashed.publish({
      id: 'slow',
      nodes: [{ id: 'hold', actionType: 'core.sleep', parameters: { ms: 600_000 }, policies: { timeoutMs: 900_000 } }],
    });
    const run = await crashed.run('slow');
    await crashed.run('release');
    // The second crash of a run that was executed at the first makes the server wait before it tries it again.
    for (let crash = 0; crash < 2; crash++) {
      await crashed.until(run, (now) => now.nodes.hold?.status === 'Running');
      await crashed.down('SIGKILL');
      await crashed.up();
    }
    const page = await chromium.page(crashed);
    await page.goTo('/?only=orphaned');
    const rows = page.locator('.run-row:not(.head)');
    await counted(rows, 1);
    await rows.getByText('Orphaned').waitFor();
    await rows.getByText('No process executes this run').waitFor();
    await page.goTo('/');
    await counted(rows, 2);
    await page.getByLabel('Only').selectOption('orphaned');
    await page.waitForURL(/only=orphaned/);
    await counted(rows, 1);
    const html = await fetch(`${crashed.url}/?only=orphaned`).then((answer) => answer.text());
    assert.ok(html.includes(run) && !html.includes('/workflows/release'), 'the first HTML has the same');
    assert.deepEqual(page.wrong, []);
    await page.done();
  } finally {
    await crashed.remove();
  }
});
