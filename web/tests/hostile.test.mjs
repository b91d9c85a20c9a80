/**
 * Values that are hostile or huge, on every view that shows one: text, cut with a way to the whole,
 * bounded on the page, and never executed.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, launch, noSidewaysScrolling, taken } from './harness.mjs';

/** More elements than this on one page are more than a person reads, and slow. */
const ELEMENTS = 4000;

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {string} */
let big;
/** @type {string} */
let waiting;

const MARKUP = '<script>document.title="pwned"</script><svg onload=alert(1)>\u202e\u2066\u200b';

before(async () => {
  server = await Server.start();
  chromium = await launch();
  await server.publish({
    id: 'big',
    displayName: MARKUP,
    triggerSchema: { type: 'object', title: MARKUP, properties: { blob: { type: 'string', title: MARKUP, description: MARKUP }, deep: {} } },
    nodes: [
      { id: 'copy', name: MARKUP, actionType: 'core.echo', parameters: { all: '{{ trigger }}' } },
      {
        id: 'each',
        name: MARKUP,
        forEach: { items: '{{ trigger.rows }}', body: { nodes: [{ id: 'inner', name: MARKUP, actionType: 'core.echo', parameters: { item: '{{ item }}' } }] } },
        dependsOn: ['copy'],
      },
      { id: 'stop', actionType: 'core.fail', parameters: { code: MARKUP.slice(0, 60), message: MARKUP + 'm'.repeat(1 << 20), retriable: false }, dependsOn: ['each'] },
    ],
  });
  let deep = /** @type {any} */ (MARKUP);
  for (let i = 0; i < 60; i++) deep = i % 2 ? [deep] : { [`${MARKUP}${i}`]: deep };
  const rows = Array.from({ length: 40 }, (_, i) => `${MARKUP}${i}`);
  const trigger = { blob: MARKUP + 'z'.repeat(9 << 20), deep, rows };
  big = await server.run('big', { trigger, labels: { hostile: MARKUP } });
  await server.until(big, (now) => now.status === 'Failed');
  await server.publish({
    id: 'asks',
    nodes: [
      {
        id: 'ask',
        waitForSignal: {
          name: 'answer',
          schema: { type: 'object', title: MARKUP, required: ['a'], properties: { a: { enum: [MARKUP, 'b'], title: MARKUP }, [MARKUP]: { type: 'string' } } },
        },
      },
    ],
  });
  waiting = await server.run('asks');
  await server.until(waiting, (now) => now.nodes.ask?.status === 'Waiting');
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

/** @param {any} page @param {string} where */
async function harmless(page, where) {
  assert.doesNotMatch(await page.title(), /^pwned/, where);
  const seen = await page.evaluate(() => ({
    markup: document.querySelectorAll('main script, main svg[onload], dialog script, dialog svg[onload]').length,
    hidden: /[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText),
    elements: document.querySelectorAll('*').length,
  }));
  assert.equal(seen.markup, 0, `markup on ${where}`);
  assert.equal(seen.hidden, false, `hidden characters on ${where}`);
  assert.ok(seen.elements < ELEMENTS, `${seen.elements} elements on ${where}`);
  assert.ok((await noSidewaysScrolling(page)) <= 0, `${where} scrolls sideways`);
}

test('an output of 9 MiB, a message of 1 MiB and deep values stay text, bounded and harmless on every view', async () => {
  const page = await chromium.page(server, { width: 360, height: 740 });
  page.on('dialog', (/** @type {any} */ dialog) => {
    page.wrong.push(`alert: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const views = ['/', `/runs/${big}`, `/runs/${big}?node=copy`, `/runs/${big}?node=each&open=each`, `/runs/${big}?node=each%5B3%5D%2Finner`];
  views.push(`/runs/${big}?node=stop`, `/runs/${big}?pane=timeline`, `/runs/${big}?pane=events`, `/runs/${big}?at=5&pane=node`);
  views.push('/workflows', '/workflows/big', '/workflows/big?tab=start', '/workflows/big?tab=statistics', '/editor?workflow=big');
  views.push('/operations', '/operations?tab=audit');
  for (const view of views) {
    await page.goTo(view);
    await taken(page);
    await page.waitForLoadState('networkidle');
    await harmless(page, view);
  }
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the whole of a large output can be read in part and saved', async () => {
  const page = await chromium.page(server);
  await page.goTo(`/runs/${big}?node=copy`);
  await page.locator('.node-panel').getByRole('button', { name: 'all 9.0 MiB' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('The first 195.3 KiB of 9.0 MiB.').waitFor();
  const [file] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('button', { name: 'Save as a file' }).click()]);
  const saved = (await import('node:fs')).readFileSync(await file.path(), 'utf8');
  assert.equal(saved, MARKUP + 'z'.repeat(9 << 20));
  await harmless(page, 'the whole value');
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a fork of a run with a huge trigger keeps it without a text field, and forms of hostile schemas are text', async () => {
  const page = await chromium.page(server);
  await page.goTo(`/runs/${big}`);
  await page.locator('.run-head').getByRole('button', { name: 'Fork' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('9.0 MiB is too large to edit here').waitFor();
  const longest = await dialog.locator('textarea, input').evaluateAll((/** @type {HTMLInputElement[]} */ all) => Math.max(...all.map((one) => one.value.length)));
  assert.ok(longest < 300_000, `a field of ${longest} characters`);
  await dialog.getByLabel('From').fill('stop');
  await dialog.getByRole('button', { name: 'Dry run' }).click();
  await dialog.locator('[data-preview="fork"]').getByText('Reused').waitFor();
  await harmless(page, 'the fork dialog');
  await page.goTo(`/runs/${waiting}?node=ask`);
  await page.locator('.node-panel').getByRole('button', { name: 'Signal' }).click();
  await dialog.locator('select').waitFor();
  await harmless(page, 'the signal dialog');
  assert.deepEqual(page.wrong, []);
  await page.done();
});
