/**
 * The keyboard alone: Tab reaches every control of every view, and a waiting run is approved
 * without a pointer.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, launch, taken } from './harness.mjs';
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

/** Marks every control that is seen, and returns how many there are. */
function mark() {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
  const seen = all.filter((element) => {
    const control = /** @type {HTMLInputElement} */ (element);
    if (control.disabled || control.tabIndex < 0 || !control.checkVisibility()) return false;
    // Of a group of radio buttons Tab reaches one; the arrow keys move within it.
    return control.type !== 'radio' || control.checked;
  });
  for (const element of seen) element.setAttribute('data-unreached', '');
  document.body.addEventListener('focusin', (event) => /** @type {Element} */ (event.target).removeAttribute('data-unreached'));
  return seen.length;
}

test('Tab reaches every control of every view', async () => {
  const page = await chromium.page(server);
  for (const view of [
    '/',
    `/runs/${failed}`,
    `/runs/${failed}?node=charge-all&open=charge-all`,
    '/workflows',
    '/workflows/billing?tab=versions',
    '/workflows/billing?tab=start',
    '/editor?workflow=billing',
    '/operations',
    '/operations?tab=secrets',
  ]) {
    await page.goTo(view);
    await taken(page);
    await page.waitForLoadState('networkidle');
    const count = await page.evaluate(mark);
    assert.ok(count > 5, `${view} has ${count} controls`);
    for (let i = 0; i < count + 20; i++) {
      await page.keyboard.press('Tab');
      // The editor takes Tab for itself until Escape.
      if (await page.evaluate(() => document.activeElement?.matches('.code textarea'))) await page.keyboard.press('Escape');
      if (!(await page.locator('[data-unreached]').count())) break;
    }
    const missed = await page.locator('[data-unreached]').evaluateAll((/** @type {Element[]} */ all) => all.map((one) => one.outerHTML.slice(0, 120)));
    assert.deepEqual(missed, [], view);
  }
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a waiting run is approved with the keyboard alone', async () => {
  const run = await server.run('release');
  await server.until(run, (now) => now.nodes.approve?.status === 'Waiting');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${run}`);
  // What is hidden takes no focus.
  await taken(page);
  await page.locator('w-graph [role="option"]').first().waitFor({ state: 'attached' });
  await page.locator('w-graph [role="listbox"]').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.waitForURL(/node=approve/);
  await page.locator('.node-panel').getByRole('button', { name: 'Signal' }).waitFor();
  await page.keyboard.press('Enter');
  for (let i = 0; i < 10; i++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement?.textContent === 'Signal')) break;
  }
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Approved').waitFor();
  for (let i = 0; i < 10; i++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => /** @type {HTMLInputElement} */ (document.activeElement)?.type === 'checkbox')) break;
  }
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  await page.locator('.run-title').getByText('Succeeded').waitFor();
  const ended = await server.api('GET', `/executions/${run}`);
  assert.equal(ended.nodes.approve.output.approved, true);
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the arrow keys move among the events, and Enter shows the run as it was', async () => {
  const page = await chromium.page(server);
  await page.goTo(`/runs/${failed}`);
  const place = () => page.evaluate(() => /** @type {HTMLElement | null} */ (document.activeElement?.closest('.event'))?.dataset.place);
  await taken(page);
  await page.locator('.event-at[tabindex="0"]').focus();
  await page.keyboard.press('Home');
  assert.equal(await place(), '0');
  for (let i = 0; i < 12; i++) await page.keyboard.press('ArrowDown');
  assert.equal(await place(), '12', 'rows that were out of sight are reached');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement?.matches('.event-node, .event-data')), true);
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await page.waitForURL(/at=13/);
  await page.getByText('as it was at event 13').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('the exact time is told to the keyboard: of a time by itself, and of a row that takes the focus', async () => {
  const run = await server.api('GET', `/executions/${failed}`);
  const page = await chromium.page(server);
  const exact = page.locator('.exact-time');
  const tabTo = async (/** @type {string} */ selector) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((/** @type {string} */ wanted) => document.activeElement?.matches(wanted), selector)) return;
    }
    assert.fail(`Tab does not reach ${selector}`);
  };
  await page.goTo(`/runs/${failed}`);
  await taken(page);
  await tabTo('.run-facts w-time');
  await exact.getByText(`${run.createdAt} (UTC)`).waitFor();
  await page.keyboard.press('Tab');
  await exact.getByText(`${run.createdAt} (UTC)`).waitFor({ state: 'hidden' });
  await page.goTo('/');
  await taken(page);
  await page.locator('.run-row:not(.head)').first().waitFor();
  const times = await page.locator('.run-row w-time').count();
  assert.ok(times > 0);
  assert.equal(await page.locator('.run-row w-time[tabindex]').count(), 0, 'rows have no more stops than before');
  await tabTo('.run-row a');
  await exact.getByText('(UTC)').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-describedby')), 'exact-time');
  await page.goTo(`/runs/${failed}?at=3`);
  await page.locator('.travel-what').getByText(/\d\d:\d\d:\d\d\.\d{3} UTC$/).waitFor();
  await page.locator('w-events').getByText('Times in UTC').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.done();
});
