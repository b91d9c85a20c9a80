/**
 * What the list of runs says to the engineer on call: what fails, since when and why, what waits
 * and for what, and which runs a command would reach.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Server, counted, launch } from './harness.mjs';
import { billing, chargeCard, flaky, release } from './definitions.mjs';

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let page;
/** @type {string} */
let billed;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [chargeCard, billing, release, flaky]) await server.publish(definition);
  await Promise.all(Array.from({ length: 7 }, () => server.run('flaky')));
  const customers = Array.from({ length: 5 }, (_, i) => ({ id: `c${i}`, amount: i === 3 ? 0 : 10 }));
  billed = await server.run('billing', { trigger: { customers } });
  await server.until(billed, (now) => now.status === 'Failed');
  const waiting = await server.run('release');
  await server.until(waiting, (now) => now.nodes.approve?.status === 'Waiting');
  for (;;) if ((await server.api('GET', '/executions?workflow=flaky&status=Failed')).items.length === 7) break;
});
afterEach(async () => {
  const wrong = page?.wrong ?? [];
  await page?.done();
  page = null;
  assert.deepEqual(wrong, []);
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

test('failures are grouped by workflow and root cause, and a group leads to its runs and to their reattempt', async () => {
  page = await chromium.page(server);
  await page.goTo('/');
  const failing = page.locator('.failing');
  const groups = failing.getByRole('listitem');
  await groups.nth(0).filter({ hasText: /7 runs\s*flaky\s*HTTP_503\s*no capacity/ }).waitFor();
  await groups.nth(1).filter({ hasText: /1 run\s*billing\s*CARD_DECLINED\s*amount 0 is not chargeable/ }).waitFor();
  await groups.nth(0).getByRole('button', { name: 'Reattempt' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('7 runs would take it').waitFor();
  await page.keyboard.press('Escape');
  await groups.nth(0).getByRole('link').click();
  await page.waitForURL(/workflow=flaky.*error=HTTP_503/);
  await failing.waitFor({ state: 'hidden' });
  await counted(page.locator('.run-row:not(.head)'), 7);
});

test('a row says the root cause, where it happened, and what a waiting run waits for', async () => {
  page = await chromium.page(server);
  await page.goTo('/');
  const row = page.locator('.run-row').filter({ hasText: 'billing' });
  await row.filter({ hasText: /CARD_DECLINED amount 0 is not chargeable · charge-all\[3\]\/charge › reject/ }).waitFor();
  const waits = page.locator('.run-row').filter({ hasText: 'release' });
  await waits.getByText("Waits for signal 'approval' (approve)").waitFor();
  await waits.locator('.cell-status').getByText('Waiting').waitFor();
});

test('child runs are folded under their parent, and opened in place', async () => {
  page = await chromium.page(server);
  await page.goTo('/');
  const rows = page.locator('.run-row:not(.head)');
  // Child runs are not rows of their own.
  await counted(rows, 9);
  await page.getByRole('button', { name: '5 child runs' }).click();
  const children = page.locator('.run-row.inner');
  await counted(children, 5);
  await counted(children.filter({ hasText: 'CARD_DECLINED' }), 1);
  await page.getByRole('button', { name: '5 child runs' }).click();
  await children.first().waitFor({ state: 'detached' });
});

test('a command for all that match reaches the runs that the list shows, and no child of them', async () => {
  page = await chromium.page(server);
  await page.goTo('/?status=Failed');
  await counted(page.locator('.run-row:not(.head)'), 8);
  await page.getByRole('button', { name: 'Act on all that match' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('8 match').waitFor();
});

test('filters by error and by what a run waits for are in the address, and in the first HTML', async () => {
  page = await chromium.page(server);
  await page.goTo('/');
  await page.getByLabel('Error code').fill('CARD_DECLINED');
  await page.keyboard.press('Enter');
  await page.waitForURL(/error=CARD_DECLINED/);
  await counted(page.locator('.run-row:not(.head)'), 1);
  await page.locator('.run-row:not(.head)', { hasText: 'billing' }).waitFor();
  await page.goTo('/');
  await page.getByLabel('Only').selectOption('waiting');
  await page.waitForURL(/only=waiting/);
  await counted(page.locator('.run-row:not(.head)'), 1);
  await page.locator('.run-row:not(.head)', { hasText: 'release' }).waitFor();
  const html = await fetch(`${server.url}/?error=CARD_DECLINED`).then((answer) => answer.text());
  assert.ok(html.includes(billed), 'the failed run is in the first HTML');
  assert.ok(!html.includes('HTTP_503'), 'and others are not');
});

test('the runs of a version are listed from the workflow, and the filter is taken away', async () => {
  const gate = (/** @type {string} */ description) => ({ ...release, id: 'gate', description });
  await server.publish(gate('first'));
  const old = await server.run('gate');
  await server.publish(gate('second'));
  const now = [await server.run('gate'), await server.run('gate')];
  page = await chromium.page(server);
  await page.goTo('/workflows/gate?tab=versions');
  await page.getByRole('link', { name: 'Runs of version 2' }).click();
  await page.waitForURL(/\/\?workflow=gate&version=2/);
  const rows = page.locator('.run-row:not(.head)');
  await counted(rows, 2);
  assert.equal(await rows.filter({ hasText: 'v1' }).count(), 0);
  // A command for all that match reaches these alone.
  await page.getByRole('button', { name: 'Act on all that match' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Command', { exact: true }).selectOption('pause');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('2 runs would take it').waitFor();
  await dialog.getByText('The same as a command').click();
  await dialog.getByText('--filter version=2').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Take away the filter version 2' }).click();
  await counted(rows, 3);
  assert.doesNotMatch(page.url(), /version/);
  await page.goTo('/workflows/gate?version=1');
  await page.getByRole('link', { name: 'Runs of version 1' }).click();
  await counted(rows, 1);
  // Another workflow has other versions.
  await page.getByLabel('Workflow', { exact: true }).fill('release');
  await page.keyboard.press('Enter');
  await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get('workflow') === 'release' && !url.searchParams.has('version'));
  const html = await fetch(`${server.url}/?workflow=gate&version=1`).then((answer) => answer.text());
  assert.ok(html.includes(old) && !html.includes(now[0]), 'the first HTML has the runs of the version alone');
});
