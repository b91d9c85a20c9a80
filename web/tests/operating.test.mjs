/**
 * What an operator does for many runs, and what starts runs by itself: each is shown as the command
 * that does the same, with what was written into the form.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Server, launch } from './harness.mjs';

const asks = { id: 'asks', nodes: [{ id: 'ask', waitForSignal: { name: 'answer', schema: { type: 'object', required: ['ok'] } } }] };
const pair = {
  id: 'pair',
  nodes: [
    { id: 'one', actionType: 'core.echo', parameters: { n: 1 } },
    { id: 'two', actionType: 'core.echo', parameters: { n: 2 }, dependsOn: ['one'] },
  ],
};
const slow = { id: 'slow', nodes: [{ id: 'only', actionType: 'core.sleep', parameters: { ms: '{{ trigger.ms }}' } }] };

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let page;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [asks, pair, slow]) await server.publish(definition);
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

test('a signal with a payload, and a result by hand, reach all that match', async () => {
  const runs = [await server.run('asks'), await server.run('asks'), await server.run('asks')];
  for (const run of runs) await server.until(run, (now) => now.nodes.ask?.status === 'Waiting');
  page = await chromium.page(server);
  await page.goTo('/?workflow=asks&status=Running');
  await page.getByRole('button', { name: /^Act on all/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Command', { exact: true }).selectOption('signal');
  await dialog.getByLabel("The signal's name").fill('answer');
  await dialog.getByLabel('Payload').fill('{"ok": 1}');
  await dialog.getByText('The same as a command').click();
  await dialog.getByText(`answer '{"ok":1}'`).waitFor();
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('3 runs would take it').waitFor();
  await dialog.getByRole('button', { name: 'Signal 3 runs' }).click();
  for (const run of runs) {
    const ended = await server.until(run, (now) => now.status === 'Succeeded');
    assert.deepEqual(ended.nodes.ask.output, { ok: 1 });
  }
  await page.keyboard.press('Escape');
  const other = await server.run('asks');
  await server.until(other, (now) => now.nodes.ask?.status === 'Waiting');
  await page.getByRole('button', { name: /^Act on all/ }).click();
  await dialog.getByLabel('Command', { exact: true }).selectOption('set-result');
  await dialog.getByLabel('Node', { exact: true }).fill('ask');
  await dialog.getByLabel('Output').fill('"by hand"');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.getByText('1 run would take it').waitFor();
  await dialog.getByRole('button', { name: 'Set result 1 run' }).click();
  const ended = await server.until(other, (now) => now.status === 'Succeeded');
  assert.equal(ended.nodes.ask.output, 'by hand');
});

test('a fork changes the parameters of each node that it names', async () => {
  const run = await server.run('pair');
  await server.until(run, (now) => now.status === 'Succeeded');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  await page.locator('.run-head').getByRole('button', { name: 'Fork', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('From').fill('one, two');
  await dialog.getByText('Variables and parameters').click();
  await dialog.getByLabel('Parameters of one').fill('{"n": 10}');
  await dialog.getByLabel('Parameters of two').fill('{"n": 20}');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.locator('[data-preview="fork"]').getByText('two').first().waitFor();
  await dialog.locator('[data-act="fork"]').click();
  await page.waitForURL((/** @type {URL} */ url) => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(run));
  const forked = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  const ended = await server.until(forked, (now) => now.status === 'Succeeded');
  assert.deepEqual([ended.nodes.one.output, ended.nodes.two.output], [{ n: 10 }, { n: 20 }]);
});

test('a schedule is set, paused and resumed by dialogs with the command, and any shows its next ten times', async () => {
  page = await chromium.page(server);
  await page.goTo('/operations?tab=schedules');
  await page.getByRole('button', { name: 'Set a schedule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Id', { exact: true }).fill('often');
  await dialog.getByLabel('Workflow', { exact: true }).fill('pair');
  await dialog.getByLabel(/milliseconds between runs/).fill('3600000');
  await dialog.getByText('The same as a command').click();
  await dialog.getByText('schedules set often --workflow pair --every-ms 3600000').waitFor();
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await page.getByRole('row').filter({ hasText: /^often/ }).waitFor();
  for (let n = 0; n < 11; n++) await server.api('POST', '/schedules', { id: `z${n}`, workflowId: 'pair', cron: '0 2 * * *' });
  await page.reload();
  const row = page.getByRole('row').filter({ hasText: /^z10/ });
  await row.locator('summary').click();
  await row.locator('.times li').nth(9).waitFor();
  await row.getByRole('button', { name: 'Pause' }).click();
  await dialog.getByText('The same as a command').click();
  await dialog.getByText('schedules pause z10').waitFor();
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await row.getByText('paused').waitFor();
  await row.getByRole('button', { name: 'Resume' }).click();
  await dialog.getByRole('button', { name: 'Resume' }).click();
  await row.locator('summary').waitFor();
});

test('a run is compared with the median of its workflow, also where the list has no run that succeeded', async () => {
  for (let n = 0; n < 3; n++) await server.until(await server.run('slow', { trigger: { ms: 10 } }), (now) => now.status === 'Succeeded');
  const going = await server.run('slow', { trigger: { ms: 600_000 } });
  await server.until(going, (now) => now.nodes.only?.status === 'Running');
  page = await chromium.page(server);
  await page.goTo('/?workflow=slow&status=Running');
  await page.locator(".took[title^=\"The median of this workflow's succeeded runs is\"]").waitFor();
  await page.locator('.took small').filter({ hasText: '×' }).waitFor();
  await server.api('POST', `/executions/${going}/cancel`, {});
});

test('completion inside parameters offers those of the action of that node', async () => {
  page = await chromium.page(server);
  await page.goTo('/editor');
  const area = page.getByRole('textbox', { name: 'Definition' });
  await area.fill('id: d\nnodes:\n- id: a\n  actionType: core.sleep\n- id: b\n  actionType: http.request\n  parameters:\n    ');
  await page.keyboard.press('Control+End');
  await area.pressSequentially('m');
  const offers = page.locator('.complete');
  await offers.getByText('method').first().waitFor();
  assert.equal(await offers.getByText('ms', { exact: true }).count(), 0);
});
