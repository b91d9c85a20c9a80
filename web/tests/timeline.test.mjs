/**
 * The timeline: attempts where they were, waits between them, and nothing where nothing is known.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, counted, launch } from './harness.mjs';

const retry = { maxAttempts: 4, strategy: 'fixed', baseDelayMs: 400, jitter: false };
/** One node executes at a time: those of one iteration queue behind those of the other. */
const uneven = {
  id: 'uneven',
  maxParallel: 1,
  nodes: [
    { id: 'call', actionType: 'core.fail', parameters: { code: 'HTTP_503', untilAttempt: 3 }, policies: { retry } },
    { id: 'nap', delay: { ms: 300 }, dependsOn: ['call'] },
    {
      id: 'each',
      forEach: {
        items: [1, 2],
        body: {
          nodes: [
            { id: 'work', actionType: 'core.sleep', parameters: { ms: 150 } },
            { id: 'rest', actionType: 'core.sleep', parameters: { ms: 150 }, dependsOn: ['work'] },
          ],
        },
      },
      dependsOn: ['call'],
    },
  ],
};

/** @type {Server} */
let server;
/** @type {Awaited<ReturnType<typeof launch>>} */
let chromium;
/** @type {any} */
let run;

before(async () => {
  server = await Server.start();
  chromium = await launch();
  await server.publish(uneven);
  const id = await server.run('uneven');
  run = await server.until(id, (now) => now.status === 'Succeeded');
});
after(async () => {
  await chromium?.browser.close();
  await server?.remove();
});

/** A page on the run as those that are large are read: without their nodes. @param {string} query */
async function opened(query) {
  const page = await chromium.page(server);
  await page.route(
    (/** @type {URL} */ url) => url.pathname.endsWith(`/executions/${run.executionId}`) && !url.searchParams.has('nodes'),
    (/** @type {any} */ route) => {
      const url = new URL(route.request().url());
      url.searchParams.set('nodes', 'none');
      return route.continue({ url: url.href });
    },
  );
  await page.goTo(`/runs/${run.executionId}?pane=timeline${query}`);
  return page;
}

/** @param {any} page @param {string} path */
const rowOf = (page, path) => page.locator('.tl-row', { has: page.locator(`.tl-pick[title^="${path}:"]`) });

/** Where pieces begin, in percent of the run. @param {any} pieces */
const begins = (pieces) => pieces.evaluateAll((/** @type {HTMLElement[]} */ all) => all.map((one) => parseFloat(one.style.left)));

test('attempts are ticks where they began, and the waits between them are hatched', async () => {
  const { actions } = await server.api('GET', `/executions/${run.executionId}/nodes/call`);
  assert.equal(actions.length, 3);
  const [from, to] = [Date.parse(run.createdAt), Date.parse(run.endedAt)];
  const share = (/** @type {string} */ at) => ((Date.parse(at) - from) / (to - from)) * 100;
  const page = await opened('');
  const call = rowOf(page, 'call');
  await counted(call.locator('.tl-tick'), 3);
  const near = (/** @type {number[]} */ seen, /** @type {number[]} */ wanted) => {
    assert.equal(seen.length, wanted.length);
    seen.forEach((at, i) => assert.ok(Math.abs(at - wanted[i]) < 0.01, `${at} is not ${wanted[i]}`));
  };
  near(await begins(call.locator('.tl-tick')), actions.map((/** @type {any} */ one) => share(one.startedAt)));
  near(await begins(call.locator('.tl-bar.hatched')), actions.slice(0, 2).map((/** @type {any} */ one) => share(one.endedAt)));
  await counted(call.locator('.tl-bar.bad'), 2);
  await counted(call.locator('.tl-bar.good'), 1);
  // A delay that has ended is a wait all the same, and one attempt needs no tick.
  await counted(rowOf(page, 'nap').locator('.tl-bar.hatched'), 1);
  await counted(rowOf(page, 'nap').locator('.tl-tick'), 0);
  await counted(rowOf(page, 'each').locator('.tl-bar.hatched'), 0);
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('without an answer about its attempts a node has no ticks', async () => {
  const page = await chromium.page(server);
  await page.route('**/nodes/call', (/** @type {any} */ route) => route.fulfill({ status: 404, json: { error: { code: 'NODE_NOT_FOUND' } } }));
  const answered = page.waitForResponse('**/nodes/call');
  await page.goTo(`/runs/${run.executionId}?pane=timeline`);
  await answered;
  await counted(rowOf(page, 'call').locator('.tl-bar'), 1);
  await counted(page.locator('.tl-tick'), 0);
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('at an earlier moment the timeline has the attempts of that moment', async () => {
  const { items } = await server.api('GET', `/executions/${run.executionId}/events?limit=1000`);
  const second = items.filter((/** @type {any} */ event) => event.kind === 'NodeRetryScheduled')[1];
  const page = await opened(`&at=${second.position}`);
  await counted(rowOf(page, 'call').locator('.tl-tick'), 2);
  await counted(rowOf(page, 'call').locator('.tl-bar.bad'), 2);
  await page.done();
});

test('a node inside a loop queues from the end of the node before it in its iteration', async () => {
  const page = await chromium.page(server);
  await page.goTo(`/runs/${run.executionId}?pane=timeline&open=each`);
  const begin = Date.parse(run.createdAt);
  const share = (/** @type {string} */ at) => ((Date.parse(at) - begin) / (Date.parse(run.endedAt) - begin)) * 100;
  const late = [0, 1].filter((n) => run.nodes[`each[${n}]/rest`].startedAt > run.nodes[`each[${n}]/work`].endedAt);
  assert.ok(late.length > 0, 'one at least has queued');
  for (const n of late) {
    const queued = rowOf(page, `each[${n}]/rest`).locator('.tl-queue');
    await counted(queued, 1);
    assert.ok(Math.abs((await begins(queued))[0] - share(run.nodes[`each[${n}]/work`].endedAt)) < 0.01);
  }
  // Nobody knows since when the first node of an iteration could have begun.
  await counted(rowOf(page, 'each[1]/work').locator('.tl-queue'), 0);
  assert.deepEqual(page.wrong, []);
  await page.done();
});

test('a node of many attempts shows the last of them, says so, and offers the earlier ones', async () => {
  const retry = { maxAttempts: 60, strategy: 'fixed', baseDelayMs: 1, jitter: false };
  await server.publish({ id: 'tried', nodes: [{ id: 'call', actionType: 'core.fail', parameters: { untilAttempt: 60 }, policies: { retry } }] });
  const id = await server.run('tried');
  await server.until(id, (now) => now.status === 'Succeeded');
  const page = await chromium.page(server);
  await page.goTo(`/runs/${id}?node=call`);
  const attempts = page.locator('.node-panel .attempts > li');
  await counted(attempts, 50);
  assert.equal(await attempts.first().getAttribute('value'), '11');
  await page.locator('.node-panel').getByText('The last 50 of 60.').waitFor();
  await page.getByRole('button', { name: 'Earlier attempts' }).click();
  await counted(attempts, 60);
  await page.getByText('The last 50 of 60.').waitFor({ state: 'hidden' });
  // Where they took but a moment, not every attempt can be a tick of its own.
  assert.ok((await rowOf(page, 'call').locator('.tl-tick').count()) <= 60);
  assert.deepEqual(page.wrong, []);
  await page.done();
});
