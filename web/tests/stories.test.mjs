/**
 * What an engineer on call does, with the real server and a real browser.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, afterEach, before, test } from 'node:test';
import { Server, launch } from './harness.mjs';
import { billing, chargeCard, flaky, release } from './definitions.mjs';

/** Runs a command that the page shows. @param {string} command */
function sh(command) {
  return execFileSync('sh', ['-c', command.replace(/^windlass /, `'${process.env.WINDLASS_BIN}' `)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** The commands that a dialog shows. @param {any} dialog @returns {Promise<string[]>} */
async function commands(dialog) {
  await dialog.getByText('The same as a command').click();
  await dialog.locator('.commands code').first().waitFor();
  return dialog.locator('.commands code').allInnerTexts();
}

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let page;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [chargeCard, billing, release, flaky]) await server.publish(definition);
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

test('the root cause is read through a child in a loop, its input fixed, and the fork succeeds', async () => {
  const customers = Array.from({ length: 20 }, (_, i) => ({ id: `c${i}`, amount: i === 17 ? 0 : 10 + i }));
  const run = await server.run('billing', { trigger: { customers } });
  await server.until(run, (now) => now.status === 'Failed');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  const cause = page.locator('.root-cause');
  await cause.getByText('amount 0 is not chargeable').waitFor();
  await cause.getByText('CARD_DECLINED').waitFor();
  await cause.getByRole('link', { name: 'charge-all[17]/charge' }).click();
  await page.waitForURL(/node=charge-all%5B17%5D%2Fcharge/);
  await page.locator('.node-panel').getByText('Child run').waitFor();
  await cause.getByRole('link', { name: /reject/ }).click();
  await page.locator('.node-panel').getByText('CARD_DECLINED').first().waitFor();
  await page.goBack();
  await page.locator('.run-head').getByRole('button', { name: 'Fork' }).click();
  const dialog = page.getByRole('dialog');
  // A dry run comes first.
  await dialog.locator('[data-act="fork"]:disabled').waitFor();
  const field = dialog.getByLabel('Customers', { exact: true });
  await field.fill((await field.inputValue()).replace(/"amount": 0\b/, '"amount": 27'));
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  const preview = dialog.locator('[data-preview="fork"]');
  await preview.filter({ hasText: /Runs again[\s\S]*charge-all[\s\S]*Reused[\s\S]*load/ }).waitFor();
  const [command, curl] = await commands(dialog);
  assert.match(command, /^windlass fork .* --from charge-all --set /);
  sh(`${command} --dry-run`);
  assert.match(curl, /^curl -X POST .*\/fork/);
  await dialog.locator('[data-act="fork"]').click();
  await page.waitForURL((/** @type {URL} */ url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(run));
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  const next = await server.api('GET', `/executions/${page.url().split('/runs/')[1].split('?')[0]}`);
  assert.equal(next.origin.executionId, run);
});

test('a waiting run is approved with the form of its signal, and is seen to end', async () => {
  const run = await server.run('release');
  await server.until(run, (now) => now.nodes.approve?.status === 'Waiting');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}?node=approve`);
  await page.locator('.node-panel').getByRole('button', { name: 'Signal' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Approved').check();
  await dialog.getByLabel('Comment (optional)').fill('looks good');
  await dialog.getByLabel('Reason').fill('on call');
  await dialog.locator('[data-act="signal"]').click();
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  const ended = await server.until(run, (now) => now.status === 'Succeeded');
  assert.deepEqual(ended.nodes.approve.output, { approved: true, comment: 'looks good' });
});

test('fifty failures are reattempted by a filter, after a dry run', async () => {
  await Promise.all(Array.from({ length: 50 }, () => server.run('flaky', { labels: { batch: 'night' } })));
  for (;;) {
    const failed = await server.api('GET', '/executions?workflow=flaky&status=Failed&limit=100');
    if (failed.items.length === 50) break;
  }
  page = await chromium.page(server);
  await page.goTo('/');
  await page.getByLabel('Workflow', { exact: true }).fill('flaky');
  await page.keyboard.press('Enter');
  await page.getByRole('group', { name: 'Status' }).getByRole('link', { name: 'Failed' }).click();
  await page.waitForURL(/workflow=flaky.*status=Failed/);
  await page.getByRole('button', { name: 'Act on all that match' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('the service is back');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('50 runs would take it').waitFor();
  const [command] = await commands(dialog);
  assert.match(sh(`${command} --dry-run --json`), /50|executionId/);
  await dialog.getByRole('button', { name: 'Reattempt 50 runs' }).click();
  await dialog.getByText('50 done, 0 refused').waitFor();
  await page.waitForURL(/job=/);
  for (;;) {
    const done = await server.api('GET', '/executions?workflow=flaky&status=Succeeded&limit=100');
    if (done.items.length === 50) break;
  }
});

test('a workflow with two mistakes is written, repaired, published and run', async () => {
  page = await chromium.page(server);
  await page.goTo('/editor');
  const area = page.getByRole('textbox', { name: 'Definition' });
  await area.fill(
    'id: hello\nnodes:\n  - id: greet\n    actionTyp: core.echo\n  - id: done\n    actionType: core.echo\n    dependsOn: [gret]\n',
  );
  const problems = page.locator('.problems');
  await problems.getByText('actionTyp').waitFor();
  await problems.getByText('gret').waitFor();
  await page.locator('button:disabled', { hasText: 'Publish' }).waitFor();
  await page.locator('.gutter .bad').first().filter({ hasText: /^4$/ }).waitFor();
  await area.fill(
    'id: hello\nnodes:\n  - id: greet\n    actionType: core.echo\n  - id: done\n    actionType: core.echo\n    dependsOn: [greet]\n',
  );
  await problems.getByText('No problems').waitFor();
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByRole('dialog').getByText('No live runs are affected').waitFor();
  await page.getByRole('button', { name: 'Publish version 1' }).click();
  await page.waitForURL(/workflows\/hello/);
  await page.locator('.start-form').getByRole('button', { name: 'Start' }).click();
  await page.waitForURL(/\/runs\//);
  await page.locator('.run-title').getByText('Succeeded').waitFor();
});

test('a draft is simulated: its endings, and the story of one', async () => {
  page = await chromium.page(server);
  await page.goTo('/editor');
  const area = page.getByRole('textbox', { name: 'Definition' });
  await area.fill(
    'id: pay\nnodes:\n  - id: charge\n    actionType: core.echo\n    policies: { retry: { maxAttempts: 1 } }\n  - id: ship\n    actionType: core.echo\n    dependsOn: [charge]\n',
  );
  await page.locator('.problems').getByText('No problems').waitFor();
  await page.getByRole('button', { name: 'Simulate' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Failures').fill('charge=50%:DECLINED');
  await dialog.getByRole('button', { name: 'Simulate 200 runs' }).click();
  await dialog.getByText('200 simulated runs').waitFor();
  const failed = dialog.getByRole('row').filter({ hasText: 'NODE_FAILED' });
  await failed.getByText('charge').waitFor();
  await dialog.locator('p').filter({ hasText: 'DECLINED' }).waitFor();
  await dialog.getByRole('row').filter({ hasText: 'Succeeded' }).waitFor();
  await failed.getByRole('button').click();
  await dialog.locator('.story li').filter({ hasText: 'DECLINED' }).first().waitFor();
  const [command] = await commands(dialog);
  assert.match(command, /^windlass simulate pay\.yaml --trigger '?{}'? --fail '?charge=50%:DECLINED/);
  await dialog.getByLabel('Failures').fill('chrge=50%');
  await dialog.getByRole('button', { name: 'Simulate 200 runs' }).click();
  await dialog.getByText("did you mean 'charge'?").waitFor();
});

test('completion offers the keys of the schema and the known actions', async () => {
  page = await chromium.page(server);
  await page.goTo('/editor');
  const area = page.getByRole('textbox', { name: 'Definition' });
  await area.fill('');
  await area.pressSequentially('id: x\nnodes:\n- id: a\n  actionT');
  await page.locator('.complete').getByText('actionType').first().waitFor();
  await page.keyboard.press('Enter');
  await area.pressSequentially('core.ec');
  await page.locator('.complete').getByText('core.echo').first().waitFor();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /actionType: core\.echo$/.test(document.querySelector('textarea')?.value ?? ''));
});

test('what the page shows at an event is what the server folds up to it', async () => {
  const run = await server.run('billing', { trigger: { customers: [{ id: 'a', amount: 3 }] } });
  await server.until(run, (now) => now.status === 'Succeeded');
  const { items } = await server.api('GET', `/executions/${run}/events?limit=1000`);
  const middle = items.find((/** @type {any} */ event) => event.kind === 'NodeSucceeded' && event.node === 'load').position;
  const then = await server.api('GET', `/executions/${run}?at=${middle}`);
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}?at=${middle}`);
  await page.getByText(`as it was at event ${middle}`).waitFor();
  // The heading is in the first HTML; the nodes follow once their layout is here.
  const options = page.locator('w-graph [role="option"]');
  for (const [path, node] of Object.entries(then.nodes)) {
    if (path.includes('/')) continue;
    const words = new RegExp(`^${node.name ?? path}, ${node.status}`);
    await options.filter({ hasText: words }).waitFor({ state: 'attached' });
  }
  await page.getByRole('button', { name: 'Now' }).click();
  await page.locator('w-graph [role="option"]', { hasText: 'report, Succeeded' }).waitFor({ state: 'attached' });
});
