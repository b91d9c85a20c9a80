/**
 * What holds on every view: hostile values are text, nothing scrolls sideways on a telephone,
 * keyboards reach everything, the page recovers by itself, tokens decide what is offered.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { AXE, Server, launch, noSidewaysScrolling, taken } from './harness.mjs';
import { HOSTILE, billing, chargeCard, release } from './definitions.mjs';

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {string} */
let run;

const hostile = {
  id: 'hostile',
  displayName: HOSTILE,
  description: HOSTILE.repeat(20),
  nodes: [
    {
      id: 'echo',
      name: HOSTILE,
      actionType: 'core.echo',
      parameters: { [HOSTILE]: HOSTILE, long: 'x'.repeat(1_000_000), deep: '{{ trigger.deep }}' },
      edges: [{ targetNode: 'fail' }],
    },
    { id: 'fail', actionType: 'core.fail', parameters: { code: 'BAD', message: HOSTILE + 'y'.repeat(20_000), retriable: false } },
  ],
};

before(async () => {
  server = await Server.start();
  chromium = await launch();
  for (const definition of [chargeCard, billing, release, hostile]) await server.publish(definition);
  let deep = /** @type {any} */ ('bottom');
  for (let i = 0; i < 60; i++) deep = { [`k${i}`]: deep };
  run = await server.run('hostile', { trigger: { deep, name: HOSTILE }, labels: { hostile: HOSTILE.slice(0, 120) } });
  await server.until(run, (now) => now.status === 'Failed');
  await server.run('billing', { trigger: { customers: [{ id: 'a', amount: 1 }] } });
  await server.run('release');
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

const VIEWS = () => [
  '/',
  `/runs/${run}`,
  `/runs/${run}?node=echo`,
  `/runs/${run}?node=fail&pane=node`,
  `/runs/${run}?pane=timeline`,
  `/runs/${run}?pane=events`,
  '/workflows',
  '/workflows/hostile',
  '/workflows/hostile?tab=versions',
  '/workflows/hostile?tab=start',
  '/editor?workflow=hostile',
  '/operations',
  '/operations?tab=audit',
  '/operations?tab=jobs',
  '/operations?tab=secrets',
];

test('hostile names, labels, outputs and errors are text on every view, at 360 pixels without sideways scrolling', async () => {
  const page = await chromium.page(server, { width: 360, height: 740 });
  for (const view of VIEWS()) {
    await page.goTo(view);
    await taken(page);
    await page.waitForLoadState('networkidle');
    assert.equal(await page.locator('main img').count(), 0, `markup on ${view}`);
    assert.notEqual(await page.title(), 'pwned', view);
    assert.doesNotMatch(await page.title(), /[\u202a-\u202e\u200b]/, view);
    assert.equal(await page.evaluate(() => /[\u202a-\u202e\u200b]/.test(document.body.innerText)), false, `hidden characters on ${view}`);
    assert.ok((await noSidewaysScrolling(page)) <= 0, `${view} scrolls sideways`);
  }
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('hidden characters are shown by their code, and long values are cut with a way to the whole', async () => {
  const page = await chromium.page(server);
  await page.goTo(`/runs/${run}?node=echo`);
  const panel = page.locator('.node-panel');
  await panel.getByText('‹U+202E›').first().waitFor();
  await panel.getByRole('button', { name: 'all 976.6 KiB' }).first().click();
  await page.getByRole('dialog').getByText('The first 195.3 KiB of 976.6 KiB.').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('axe finds nothing serious on any view, light or dark', async () => {
  await Promise.all(
    ['light', 'dark'].map(async (scheme) => {
      const page = await chromium.page(server, { scheme });
      for (const view of VIEWS()) {
        await page.goTo(view);
        await taken(page);
        await page.waitForLoadState('networkidle');
        await page.evaluate(() => document.body.classList.add('still'));
        // Playwright evaluates in the page without the page's policy.
        const source = (await import('node:fs')).readFileSync(AXE, 'utf8');
        await page.evaluate(source);
        const found = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run({ resultTypes: ['violations'] }));
        const serious = found.violations
          .filter((/** @type {any} */ v) => v.impact === 'serious' || v.impact === 'critical')
          .map(
            (/** @type {any} */ v) =>
              `${v.id}: ${v.nodes
                .slice(0, 3)
                .map((/** @type {any} */ n) => n.html.slice(0, 160))
                .join(' | ')}`,
          );
        assert.deepEqual(serious, [], `${view} in ${scheme}`);
      }
      assert.deepEqual(page.wrong, []);
      await page.done();
    }),
  );
});

test('the keyboard alone searches, chooses a node, opens a loop and a dialog', async () => {
  const { items } = await server.api('GET', '/executions?workflow=billing&limit=1');
  const page = await chromium.page(server);
  await page.goTo('/');
  await page.locator('.run-row').nth(1).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(items[0].executionId);
  await page.locator('#search-results [role="option"]').first().waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/runs\//);
  await page.locator('w-graph').waitFor();
  await page.locator('w-graph [role="option"]').first().waitFor({ state: 'attached' });
  await page.locator('w-graph [role="listbox"]').focus();
  await page.keyboard.press('ArrowDown');
  await page.waitForURL(/node=load/);
  await page.keyboard.press('ArrowDown');
  await page.waitForURL(/node=charge-all/);
  await page.keyboard.press('Space');
  await page.waitForURL(/open=charge-all/);
  await page.locator('w-graph [role="option"]', { hasText: 'prepare' }).waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'Fork', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the page says that the server is gone, and goes on by itself when it is back', async () => {
  const { items } = await server.api('GET', '/executions?workflow=release&limit=1');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${items[0].executionId}`);
  await page.locator('.pill.live').waitFor();
  await server.down();
  await page.getByText('The server cannot be reached').waitFor();
  await page.route('**/operations', async (/** @type {any} */ route) =>
    route.fulfill({ contentType: 'text/html', body: '<meta name="windlass-version" content="9.9.9+new">' }),
  );
  await server.up();
  await page.getByText('The server cannot be reached').waitFor({ state: 'detached' });
  await page.getByText('the server now runs 9.9.9+new').waitFor();
  await page.locator('.pill.live').waitFor();
  await server.api('POST', `/executions/${items[0].executionId}/signal`, { name: 'approval', payload: { approved: true } });
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a run that is not there says so, with the next command', async () => {
  const page = await chromium.page(server);
  await page.goTo('/runs/01a1ea4d-d7f1-7a54-afd3-93b28a1f8e00');
  await page.getByText('Not found').waitFor();
  await page.getByText('windlass runs').waitFor();
  await page.done();
});

test('a token signs in, stays out of the address, and decides what is offered', async () => {
  const guarded = await Server.start();
  await guarded.down();
  const keys = join(/** @type {string} */ (guarded.directory), 'keys.jwks.json');
  const token = (/** @type {string} */ scope) =>
    execFileSync(/** @type {string} */ (process.env.WINDLASS_BIN), ['token', '--scope', scope, '--key', keys], {
      cwd: guarded.directory,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .trim()
      .split('\n')
      .at(-1) ?? '';
  guarded.token = token('admin');
  guarded.words = ['--auth-keys', keys];
  await guarded.up();
  await guarded.publish(release);
  const id = await guarded.run('release');
  const page = await chromium.page(guarded);
  await page.goTo(`/runs/${id}`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Token').fill('not a token');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.signin [role="alert"] p').waitFor();
  await page.getByLabel('Token').fill(token('workflows:read'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.run-title').getByText('Running').waitFor();
  assert.ok(!page.url().includes('ey'), 'the token is not in the address');
  assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0, 'reading only');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Token').fill(token('workflows:read,workflows:execute'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await page.goTo(`/runs/${id}`);
  await page.getByRole('button', { name: 'Cancel' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
  await guarded.remove();
});
