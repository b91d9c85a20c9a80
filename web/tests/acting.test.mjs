/**
 * Every command that the page offers, given by its dialog to a real server.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, afterEach, before, test } from 'node:test';
import { Server, launch } from './harness.mjs';
import { release } from './definitions.mjs';

const order = {
  id: 'order',
  triggerSchema: {
    type: 'object',
    required: ['amount', 'size'],
    properties: {
      amount: { type: 'integer', title: 'Amount' },
      size: { enum: ['small', 'large'], title: 'Size' },
      gift: { type: 'boolean', title: 'Gift' },
      tags: { type: 'array', title: 'Tags', items: { type: 'string' } },
    },
  },
  nodes: [{ id: 'take', actionType: 'core.echo', parameters: { amount: '{{ trigger.amount }}' } }],
};

/** The first undo fails until it is tried a second time. */
const saga = {
  id: 'saga',
  nodes: [
    {
      id: 'book',
      actionType: 'core.echo',
      compensate: { actionType: 'core.fail', parameters: { code: 'BUSY', untilAttempt: 2 }, policies: { retry: { maxAttempts: 1 } } },
    },
    { id: 'pay', actionType: 'core.echo', compensate: { actionType: 'core.echo' }, dependsOn: ['book'] },
    { id: 'ship', actionType: 'core.fail', parameters: { code: 'NO_TRUCK', retriable: false }, dependsOn: ['pay'] },
  ],
};

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let page;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [order, release, saga]) await server.publish(definition);
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

/** @param {string} name @param {string} act @param {(dialog: any) => Promise<void>} [fill] */
async function give(name, act, fill) {
  await page.locator('.run-head').getByRole('button', { name, exact: true }).click();
  const dialog = page.getByRole('dialog');
  await fill?.(dialog);
  await dialog.getByLabel('Reason').fill(`${act} on call`);
  await dialog.locator(`[data-act="${act}"]`).click();
  await dialog.waitFor({ state: 'detached' });
}

/** The reasons that the audit has of a run. @param {string} run */
async function reasons(run) {
  const { items } = await server.api('GET', '/audit?limit=200');
  return JSON.stringify(items.filter((/** @type {any} */ item) => JSON.stringify(item).includes(run)));
}

test('a run is started with the form of the trigger, which says what is wrong', async () => {
  page = await chromium.page(server);
  await page.goTo('/workflows/order?tab=start');
  await page.getByLabel('Amount').fill('ten');
  await page.getByText('ten is not a whole number').waitFor();
  await page.getByLabel('Amount').fill('10');
  await page.getByLabel('Size').selectOption({ label: 'large' });
  await page.getByRole('button', { name: 'Add to Tags' }).click();
  await page.getByRole('textbox', { name: 'Tags (optional) 1' }).fill('new');
  await page.locator('.start-form').getByRole('button', { name: 'Start' }).click();
  await page.waitForURL(/\/runs\//);
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  const run = await server.api('GET', `/executions/${page.url().split('/runs/')[1]}`);
  assert.deepEqual(run.trigger, { amount: 10, size: 'large', tags: ['new'] });
});

/** What a start asks for, as the run has it. @param {any} run */
function asked({ trigger, labels, priority, version, workflowId }) {
  return { trigger, labels, priority, version, workflowId };
}

/** Runs a command that the page shows. @param {string} command */
function sh(command) {
  const own = command.replace(/^windlass /, `'${process.env.WINDLASS_BIN}' `).replace(/^curl /, 'curl -sS ');
  return execFileSync('sh', ['-c', own], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

test('a start is shown as commands that do the same', async () => {
  await server.publish({ ...order, id: 'twice' });
  await server.publish({ ...order, id: 'twice', description: 'the second' });
  page = await chromium.page(server);
  await page.goTo('/workflows/twice?tab=start&version=1');
  const form = page.locator('.start-form');
  await form.getByLabel('Amount').fill('-7');
  await form.getByLabel('Size').selectOption({ label: 'small' });
  await form.getByText('Request id, labels, priority').click();
  await form.getByLabel('Labels').fill("team=o'hare n=1 n=2");
  await form.getByText('a key is given twice').waitFor();
  await form.getByLabel('Labels').fill("team=o'hare n=$HOME");
  await form.getByLabel('Priority, 0 to 9').fill('8');
  await form.getByLabel('Request id').fill('-first');
  await form.getByText('The same as a command').click();
  /** @param {string} id */
  const commands = async (id) => {
    await form.getByLabel('Request id').fill(id);
    await form.locator('.command code', { hasText: id }).first().waitFor();
    return form.locator('.command code').allInnerTexts();
  };
  const [cli] = await commands('-by-cli');
  // Long command lines go on in the next line, between words.
  for (const code of await form.locator('.command code').all())
    assert.ok(await code.evaluate((/** @type {HTMLElement} */ box) => box.scrollWidth <= box.clientWidth), await code.innerText());
  const byCli = sh(cli).trim();
  const [, curl] = await commands('by-curl');
  const byCurl = JSON.parse(sh(curl)).executionId;
  await commands('by-button');
  await form.getByRole('button', { name: 'Start' }).click();
  await page.waitForURL(/\/runs\//);
  const byButton = page.url().split('/runs/')[1];
  const runs = await Promise.all([byButton, byCli, byCurl].map((id) => server.until(id, (now) => now.status === 'Succeeded')));
  const expected = {
    trigger: { amount: -7, size: 'small', tags: [] },
    labels: { team: "o'hare", n: '$HOME' },
    priority: 8,
    version: 1,
    workflowId: 'twice',
  };
  for (const run of runs) assert.deepEqual(asked(run), expected);
  assert.deepEqual(runs.map((run) => run.requestId), ['by-button', '-by-cli', 'by-curl']);
});

test('a run is paused, resumed and cancelled, each with its reason', async () => {
  const run = await server.run('release');
  await server.until(run, (now) => now.nodes.approve?.status === 'Waiting');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  await give('Pause', 'pause');
  await page.locator('.run-title').getByText('Paused').waitFor();
  await give('Resume', 'resume');
  await page.locator('.run-title').getByText('Running').waitFor();
  await give('Cancel', 'cancel');
  await page.locator('.run-title').getByText('Cancelled').waitFor();
  const said = await reasons(run);
  for (const act of ['pause', 'resume', 'cancel']) assert.match(said, new RegExp(`${act} on call`));
});

test('a waiting node is skipped, and another gets its result by hand', async () => {
  const [first, second] = [await server.run('release'), await server.run('release')];
  for (const run of [first, second]) await server.until(run, (now) => now.nodes.approve?.status === 'Waiting');
  page = await chromium.page(server);
  await page.goTo(`/runs/${first}?node=approve`);
  await page.locator('.node-panel').getByRole('button', { name: 'Skip' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Dry run' }).click();
  await page.getByRole('dialog').locator('[data-preview="skip"]').waitFor();
  await page.getByRole('dialog').locator('[data-act="skip"]').click();
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  await page.goTo(`/runs/${second}?node=approve`);
  await page.locator('.node-panel').getByRole('button', { name: 'Set result' }).click();
  await page.getByRole('dialog').getByLabel('Output').fill('{"approved": ');
  // What is not JSON cannot be set.
  await page.getByRole('dialog').locator('[data-act="set-result"]:disabled').waitFor();
  await page.getByRole('dialog').getByLabel('Output').fill('{"approved": true}');
  await page.getByRole('dialog').locator('[data-act="set-result"]').click();
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  const ended = await server.until(second, (now) => now.status === 'Succeeded');
  assert.deepEqual(ended.nodes.approve.output, { approved: true });
  assert.equal(ended.nodes.deploy.status, 'Succeeded');
});

test('a compensation that failed is shown before it is retried, and is complete then', async () => {
  const run = await server.run('saga');
  await server.until(run, (now) => now.compensation === 'incomplete');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  await page.getByText('compensation incomplete').first().waitFor();
  await give('Compensate', 'compensate', async (dialog) => {
    await dialog.getByText('BUSY').waitFor();
    await dialog.getByLabel('Compensation of book').selectOption('retry');
    await dialog.getByRole('button', { name: 'Dry run' }).click();
    await dialog.locator('[data-preview="compensate"]').getByText('book').waitFor();
  });
  await server.until(run, (now) => now.compensation === 'complete');
  await page.getByText('compensation complete').first().waitFor();
});

test('a fork changes the parameters of a node, after a dry run', async () => {
  const run = await server.run('order', { trigger: { amount: 3, size: 'small' } });
  await server.until(run, (now) => now.status === 'Succeeded');
  page = await chromium.page(server);
  await page.goTo(`/runs/${run}?node=take`);
  await page.locator('.node-panel').getByRole('button', { name: 'Fork from here' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Variables and parameters').click();
  await dialog.getByLabel('Parameters of take').fill('{"amount": 99}');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.locator('[data-preview="fork"]').getByText('take').waitFor();
  await dialog.locator('[data-act="fork"]').click();
  await page.waitForURL((/** @type {URL} */ url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(run));
  const id = page.url().split('/runs/')[1].split('?')[0];
  const forked = await server.until(id, (now) => now.status === 'Succeeded');
  assert.deepEqual(forked.nodes.take.output, { amount: 99 });
});

test('a pool is set, shows who holds and who waits, and is resized', async () => {
  page = await chromium.page(server);
  await page.goTo('/operations');
  await page.getByRole('button', { name: 'Set a pool' }).click();
  await page.getByLabel('Name').fill('database');
  await page.getByLabel('Slots').fill('1');
  await page.getByText('The same as a command').click();
  await page.locator('dialog code').getByText('pools set database 1').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Set', exact: true }).click();
  const row = page.getByRole('row').filter({ hasText: 'database' });
  await row.getByText('0 of 1').waitFor();
  await server.publish({
    id: 'pooled',
    nodes: [{ id: 'query', actionType: 'core.sleep', parameters: { ms: 600_000 }, pool: { name: 'database' } }],
  });
  const runs = [await server.run('pooled'), await server.run('pooled')];
  for (;;) if ((await server.api('GET', '/pools/database')).waiting === 1) break;
  await page.goTo('/operations');
  await row.getByText('1 of 1').waitFor();
  const links = await row.getByRole('link').evaluateAll((/** @type {HTMLAnchorElement[]} */ all) => all.map((link) => link.pathname));
  assert.deepEqual(links.sort(), runs.map((run) => `/runs/${run}`).sort());
  await row.getByRole('button', { name: 'Resize' }).click();
  await page.getByLabel('Slots').fill('2');
  await page.getByRole('dialog').getByRole('button', { name: 'Resize' }).click();
  await row.getByText('2 of 2').waitFor();
});
