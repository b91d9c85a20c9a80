/**
 * A page over what changes while a person uses it: clicks arrive, drafts stay with their version, and
 * no dialog outlives its view.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { Server, launch, taken } from './harness.mjs';
import { HOSTILE } from './definitions.mjs';

/** An iteration of it begins and ends about four times a second. */
const ticking = {
  id: 'ticking',
  nodes: [
    {
      id: 'tick',
      forEach: {
        items: Array.from({ length: 900 }, (_, i) => i),
        parallel: false,
        body: { nodes: [{ id: 'one', actionType: 'core.sleep', parameters: { ms: 250 } }] },
      },
    },
  ],
};

/** @param {number} version */
const versioned = (version) => ({
  id: 'versioned',
  nodes: [
    { id: 'first', actionType: 'core.echo', parameters: { said: `version-${version}` } },
    { id: 'last', dependsOn: ['first'], actionType: 'core.fail', parameters: { retriable: false } },
  ],
});

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let page;
/** @type {string} */
let live;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  await server.publish(ticking);
  live = await server.run('ticking');
  for (const version of [1, 2, 3]) await server.publish(versioned(version));
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

/** Presses and lets go after something has changed. @param {any} button @param {() => Promise<any>} meanwhile */
async function slowly(button, meanwhile) {
  await button.waitFor();
  await button.hover();
  await page.mouse.down();
  await meanwhile();
  await page.mouse.up();
}

/** Waits until an element, which may be another by then, has other words. @param {string} selector */
async function otherWords(selector) {
  const words = await page.locator(selector).first().textContent();
  await page.waitForFunction(([place, before]) => (document.querySelector(place)?.textContent ?? before) !== before, [selector, words]);
}

test('a slow click on a run in progress arrives, on the run and on its node', async () => {
  page = await chromium.page(server);
  await page.goTo(`/runs/${live}?node=tick`);
  await taken(page);
  for (const [place, name] of [
    ['.run-head', 'Pause'],
    ['w-node', 'Set result'],
  ]) {
    const button = page.locator(place).getByRole('button', { name, exact: true });
    await slowly(button, async () => {
      await otherWords('.run-facts');
      await otherWords('w-node .why');
    });
    await page.getByRole('dialog').getByRole('heading', { name }).waitFor();
    await page.keyboard.press('Escape');
  }
});

test('a slow click on a row of a run in progress arrives', async () => {
  page = await chromium.page(server);
  await page.goTo('/?workflow=ticking');
  await taken(page);
  await slowly(page.locator('.run-row .cell-name a.strong').first(), () => otherWords('.runs .run-row:not(.head) .cell-duration'));
  await page.waitForURL(`**/runs/${live}`);
});

test('an id that is pasted and entered at once opens its run', async () => {
  page = await chromium.page(server);
  await page.goTo('/');
  await taken(page);
  await page.keyboard.press('/');
  await page.keyboard.insertText(live);
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/runs/${live}`);
});

test('going back closes the dialog of the view that is left', async () => {
  page = await chromium.page(server);
  await page.goTo('/?workflow=ticking');
  await taken(page);
  await page.locator('.run-row .cell-name a.strong').first().click();
  await page.locator('.run-head').getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('dialog').waitFor();
  await page.goBack();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

test('a draft stays with the version that it began with, and is discarded on demand', async () => {
  page = await chromium.page(server);
  const text = page.getByLabel('Definition', { exact: true });
  const opens = async (/** @type {number} */ version) => {
    await page.goTo(`/editor?workflow=versioned&version=${version}`);
    await taken(page);
    await page.getByText('No problems').waitFor();
    return text.inputValue();
  };
  const first = await opens(1);
  assert.match(first, /version-1/);
  await text.fill(first.replace('version-1', 'edited'));
  assert.match(await opens(3), /version-3/);
  assert.equal(await page.getByText('Discard the draft').count(), 0);
  assert.match(await opens(1), /edited/);
  await page.getByRole('button', { name: 'Discard the draft' }).click();
  assert.equal(await text.inputValue(), first);
  assert.equal(await opens(1), first);
});

test('versions are compared after a time was chosen for the statistics, and say what became of their runs', async () => {
  const run = await server.run('versioned');
  await server.until(run, (now) => now.status === 'Failed');
  page = await chromium.page(server);
  await page.goTo('/workflows/versioned?tab=statistics&from=1h');
  await taken(page);
  await page.getByRole('link', { name: 'Versions', exact: true }).click();
  await page.getByRole('heading', { name: 'From version 2 to version 3' }).waitFor();
  await page.getByRole('row', { name: /Version 3/ }).getByText('1 failed').waitFor();
  await page.getByRole('row', { name: /Version 2/ }).getByText('none ended').waitFor();
  // The keyboard goes on where it was.
  await page.getByLabel('from version 2').press('ArrowDown');
  await page.getByRole('heading', { name: 'From version 1 to version 3' }).waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'from version 1');
});

test('a fork says what it cannot change, in place of leaving it out', async () => {
  page = await chromium.page(server);
  for (const [trigger, changed, says] of [
    [[1, 2], [1, 3], 'trigger is none'],
    [{ a: 1, b: 2 }, { a: 1 }, 'cannot take trigger.b away'],
    [{ 'a.b': 1 }, { 'a.b': 2 }, 'cannot change the key "a.b"'],
  ]) {
    const run = await server.run('versioned', { trigger });
    await server.until(run, (now) => now.status === 'Failed');
    await page.goTo(`/runs/${run}`);
    await taken(page);
    await page.locator('.run-head').getByRole('button', { name: 'Fork', exact: true }).click();
    const dialog = page.getByRole('dialog');
    const dry = dialog.getByRole('button', { name: 'Dry run' });
    await dialog.getByLabel('Trigger').fill(JSON.stringify(changed));
    await dialog.getByText(String(says)).waitFor();
    assert.equal(await dry.isDisabled(), true);
    await dialog.getByLabel('Trigger').fill(JSON.stringify(trigger));
    await dry.click();
    await dialog.locator('[data-preview="fork"]').waitFor();
  }
});

test('a disabled and a published workflow are shown as commands', async () => {
  page = await chromium.page(server);
  await page.goTo('/workflows/versioned');
  await taken(page);
  await page.getByRole('button', { name: 'Disable', exact: true }).click();
  await page.getByRole('dialog').getByText('The same as a command').click();
  const words = await page.getByRole('dialog').innerText();
  for (const part of ['workflows disable versioned', 'workflows enable versioned', 'curl -X DELETE', '/versioned/enable'])
    assert.ok(words.includes(part), `${part} in ${words}`);
  await page.goTo('/editor?workflow=versioned&version=1');
  await taken(page);
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  await page.getByRole('dialog').getByText('--data-binary').waitFor();
});

test('a workflow is disabled, which its view then says, and enabled again', async () => {
  await server.publish({ id: 'closing', nodes: [{ id: 'a', actionType: 'core.echo' }] });
  page = await chromium.page(server);
  await page.goTo('/workflows/closing');
  await taken(page);
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Disable', exact: true }).click();
  assert.equal(await dialog.getByRole('button', { name: 'Enable', exact: true }).count(), 0);
  await dialog.getByRole('button', { name: 'Disable', exact: true }).click();
  await page.getByText('disabled: new runs are refused').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Start', exact: true }).count(), 0);
  await assert.rejects(server.run('closing'), /WORKFLOW_DISABLED/);
  // The address of its form leads to the graph.
  await page.goTo('/workflows/closing?tab=start');
  await page.locator('w-graph').waitFor();
  await page.getByRole('button', { name: 'Enable', exact: true }).click();
  assert.equal(await dialog.getByRole('button', { name: 'Disable', exact: true }).count(), 0);
  await dialog.getByText('new runs are refused').waitFor();
  await dialog.getByRole('button', { name: 'Enable', exact: true }).click();
  await page.locator('.start-form').getByRole('button', { name: 'Start', exact: true }).waitFor();
  assert.equal(await page.getByText('disabled: new runs').count(), 0);
  // A dialog offers what fits the workflow as it is by now.
  await server.api('DELETE', '/workflows/closing');
  await page.getByRole('button', { name: 'Disable', exact: true }).click();
  await dialog.getByRole('button', { name: 'Enable', exact: true }).waitFor();
});

test('the canvas writes hidden characters of names and conditions by their codes', async () => {
  page = await chromium.page(server);
  await page.addInitScript(() => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    /** @type {any} */ (globalThis).written = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
      /** @type {any} */ (globalThis).written.push(text);
      return fillText.call(this, text, ...rest);
    };
  });
  await server.publish({
    id: 'bidi',
    nodes: [
      { id: 'a', name: 'n\u202em', actionType: 'core.echo', edges: [{ targetNode: 'b', condition: "'\u202e' == 'x'" }] },
      { id: 'b', name: HOSTILE, actionType: 'core.echo' },
    ],
  });
  await page.goTo('/workflows/bidi');
  await taken(page);
  await page.waitForFunction(() => /** @type {any} */ (globalThis).written.includes('n‹U+202E›m'));
  const written = await page.evaluate(() => /** @type {any} */ (globalThis).written.join('\n'));
  assert.doesNotMatch(written, /[\u202a-\u202e\u200b]/);
});

test('time travel says how long a node had taken by then', async () => {
  page = await chromium.page(server);
  const { items } = await server.api('GET', `/executions/${live}/events?limit=50`);
  const started = items.find((/** @type {any} */ event) => event.kind === 'NodeStarted' && event.node === 'tick');
  await page.goTo(`/runs/${live}?node=tick&at=${started.position}`);
  await taken(page);
  await page.waitForFunction(() => /Duration\s*\d+ ms/.test(document.querySelector('w-node')?.textContent ?? ''));
});
