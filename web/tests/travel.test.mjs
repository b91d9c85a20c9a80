/**
 * Time travel: what the page shows after each event is what the engine's fold up to it gives, and
 * what a fold of the events that is written here gives.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, counted, launch } from './harness.mjs';

const story = {
  id: 'story',
  vars: { seen: 0 },
  nodes: [
    { id: 'load', actionType: 'core.echo', parameters: { n: 2 }, setVars: { seen: '{{ output.n }}' } },
    {
      id: 'call',
      actionType: 'core.fail',
      parameters: { code: 'HTTP_503', untilAttempt: 2 },
      policies: { retry: { maxAttempts: 3, baseDelayMs: 1 } },
      dependsOn: ['load'],
    },
    {
      id: 'each',
      forEach: { items: [1, 2], body: { nodes: [{ id: 'work', actionType: 'core.echo' }] } },
      edges: [
        { targetNode: 'yes', condition: 'vars.seen == 2' },
        { targetNode: 'no', condition: 'vars.seen != 2' },
      ],
      dependsOn: ['call'],
    },
    { id: 'yes', actionType: 'core.fail', parameters: { code: 'BAD', message: 'as told', retriable: false } },
    { id: 'no', actionType: 'core.echo' },
    { id: 'end', actionType: 'core.echo', dependsOn: ['yes'] },
  ],
};

/** @type {Record<string, string>} */
const BECOMES = {
  NodeStarted: 'Running',
  NodeRetryScheduled: 'Waiting',
  NodeWaiting: 'Waiting',
  NodeSucceeded: 'Succeeded',
  NodeFailed: 'Failed',
  NodeSkipped: 'Skipped',
  NodeBlocked: 'Blocked',
};

/** A server with a run of the story that has ended, its events, and a page. @param {(page: any, run: string, items: any[], server: Server) => Promise<void>} work */
async function told(work) {
  const server = await Server.start();
  const chromium = await launch();
  try {
    await server.publish(story);
    const run = await server.run('story');
    await server.until(run, (now) => now.status === 'Failed');
    const { items } = await server.api('GET', `/executions/${run}/events?limit=1000`);
    const page = await chromium.page(server);
    await work(page, run, items, server);
    assert.deepEqual(page.wrong, []);
  } finally {
    await chromium.browser.close();
    await server.remove();
  }
}

test('a node has the input and the attempts that it had by then', async () => {
  await told(async (page, run, items) => {
    const place = (/** @type {string} */ kind, /** @type {string} */ node) =>
      items.find((event) => event.kind === kind && event.node === node).position;
    const panel = page.locator('.node-panel');
    const attempts = panel.locator('.attempts > li');
    const input = panel.locator('.sect', { has: page.getByRole('heading', { name: 'Input' }) });
    await page.goTo(`/runs/${run}?node=call&at=${place('NodeRetryScheduled', 'call')}`);
    await panel.locator('.node-title').getByText('Waiting').waitFor();
    await counted(attempts, 1);
    await attempts.filter({ hasText: /Failed[\s\S]*HTTP_503/ }).waitFor();
    await input.filter({ hasText: 'HTTP_503' }).waitFor();
    await page.goTo(`/runs/${run}?node=call&at=${items.length}`);
    await panel.locator('.node-title').getByText('Succeeded').waitFor();
    await counted(attempts, 2);
    // Before it began it had neither, and a node in a loop was not there.
    await page.goTo(`/runs/${run}?node=call&at=1`);
    await panel.locator('.node-title').getByText('Pending').waitFor();
    await counted(attempts, 0);
    await counted(input, 0);
    await page.goTo(`/runs/${run}?node=each[0]/work&at=1`);
    await panel.getByText('Not there yet at event 1.').waitFor();
    await page.goTo(`/runs/${run}?node=each[0]/work&at=${items.length}`);
    await panel.locator('.node-title').getByText('Succeeded').waitFor();
  });
});

test('an address past the end of the log shows the newest event, and says so', async () => {
  await told(async (page, run, items) => {
    const last = items.length;
    await page.goTo(`/runs/${run}?node=call&at=100000`);
    await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get('at') === String(last));
    await page.locator('.pill').getByText(`as it was at event ${last}`, { exact: true }).waitFor();
    await page.locator('.travel').getByText(`after event ${last} of ${last}; there is no event 100,000`, { exact: true }).waitFor();
    await page.locator(`.event.here[data-place="${last - 1}"]`).waitFor();
    assert.equal(await page.locator('.travel input').inputValue(), String(last));
    await page.locator('.travel').getByRole('button', { name: 'Now' }).click();
    await page.locator('.travel').getByText(`all ${last} events`, { exact: true }).waitFor();
    // What is no position means the present.
    for (const wrong of ['0', '-3', '2.5', 'x']) {
      await page.goTo(`/runs/${run}?at=${wrong}&node=call`);
      await page.waitForURL((/** @type {URL} */ url) => !url.searchParams.has('at'));
      await page.locator('.travel').getByText(`all ${last} events`, { exact: true }).waitFor();
    }
    // Also when the address changes while the run is open.
    await page.evaluate(() => {
      history.pushState(null, '', `${location.pathname}?at=5000`);
      dispatchEvent(new PopStateEvent('popstate'));
    });
    await page.waitForURL((/** @type {URL} */ url) => url.searchParams.get('at') === String(last));
    await page.locator('.travel').getByText('there is no event 5,000').waitFor();
  });
});

test('after every event the page shows what the engine folds up to it', async () => {
  await told(async (page, run, items, server) => {
    await page.goTo(`/runs/${run}`);
    await page.getByText(`all ${items.length} events`).waitFor();
    /** @type {Map<string, string>} */
    const folded = new Map(story.nodes.map((node) => [node.id, 'Pending']));
    /** @type {any[]} */
    const thens = [];
    for (const event of items) thens.push(await server.api('GET', `/executions/${run}?at=${event.position}`));
    for (const [i, event] of items.entries()) {
      if (folded.has(event.node) && BECOMES[event.kind]) folded.set(event.node, BECOMES[event.kind]);
      const then = thens[i];
      // The log stores some events together, as an attempt's start and end: those have one state.
      const last = JSON.stringify(then) !== JSON.stringify(thens[i + 1]);
      await page.locator('.travel input').evaluate((/** @type {HTMLInputElement} */ range, /** @type {number} */ at) => {
        range.value = String(at);
        range.dispatchEvent(new Event('input'));
      }, event.position);
      await page.locator('.pill').getByText(`as it was at event ${event.position}`, { exact: true }).waitFor();
      await page.locator('.travel-what').getByText(event.kind, { exact: true }).waitFor();
      for (const { id } of story.nodes) {
        const status = then.nodes[id]?.status ?? 'Pending';
        // No event says that a node is ready; the engine's fold does.
        const ready = status === 'Queued' ? 'Pending' : status;
        if (last) assert.equal(ready, folded.get(id), `${id} after event ${event.position}, ${event.kind} ${event.node}`);
        await page
          .locator('w-graph [role="option"]')
          .filter({ hasText: new RegExp(`^${id}, ${status}`) })
          .waitFor({ state: 'attached' });
      }
      await page.locator('.run-title .status').getByText(then.status, { exact: true }).waitFor();
      const seen = page.locator('.node-panel .value', { hasText: 'seen' });
      if (then.vars?.seen !== undefined) await seen.filter({ hasText: String(then.vars.seen) }).first().waitFor();
      // The event is marked in the log, and no other.
      await page.locator(`.event.here[data-place="${event.position - 1}"]`).waitFor();
      await counted(page.locator('.event.here'), 1);
    }
  });
});

/** Waits for an attempt, then for one signal after another. */
const waiting = {
  id: 'waiting',
  nodes: [
    {
      id: 'call',
      actionType: 'core.fail',
      parameters: { code: 'HTTP_503', untilAttempt: 2 },
      policies: { retry: { maxAttempts: 2, baseDelayMs: 1 } },
    },
    { id: 'first', waitForSignal: { name: 'one' }, dependsOn: ['call'] },
    { id: 'second', waitForSignal: { name: 'two' }, dependsOn: ['first'] },
  ],
};

test('the head says what the run waited for by then, not what it waits for now', async () => {
  const server = await Server.start();
  const chromium = await launch();
  try {
    await server.publish(waiting);
    const run = await server.run('waiting');
    await server.until(run, (now) => now.nodes.first?.status === 'Waiting');
    await server.api('POST', `/executions/${run}/pause`, {});
    await server.until(run, (now) => now.status === 'Paused');
    await server.api('POST', `/executions/${run}/resume`, {});
    await server.until(run, (now) => now.status === 'Running');
    await server.api('POST', `/executions/${run}/signal`, { name: 'one', payload: {} });
    await server.until(run, (now) => now.nodes.second?.status === 'Waiting');
    const { items } = await server.api('GET', `/executions/${run}/events?limit=1000`);
    const place = (/** @type {string} */ kind, /** @type {string | null} */ node) =>
      items.find((/** @type {any} */ event) => event.kind === kind && event.node === node).position;
    const page = await chromium.page(server);
    // What the server says of the present comes late, also when another moment is shown by then.
    /** @type {(() => void)[]} */
    const held = [];
    let holds = false;
    await page.route('**/why', async (/** @type {any} */ route) => {
      if (holds) await new Promise((done) => held.push(() => done(null)));
      await route.continue().catch(() => {});
    });
    const waits = page.locator('.root-cause.waits');
    const shows = async (/** @type {RegExp} */ words) => {
      await waits.filter({ hasText: words }).waitFor();
      return waits.innerText();
    };
    await page.goTo(`/runs/${run}`);
    await shows(/second has waited for signal 'two'/);
    const go = (/** @type {number} */ at) =>
      page.evaluate((/** @type {number} */ position) => {
        history.pushState(null, '', position ? `?at=${position}` : location.pathname);
        dispatchEvent(new PopStateEvent('popstate'));
      }, at);
    await go(place('NodeWaiting', 'first'));
    assert.doesNotMatch(await shows(/first waited for signal 'one'/), /second/);
    await go(1);
    await shows(/^The run was queued and had not started\.$/);
    await go(place('RunPaused', null));
    assert.doesNotMatch(await shows(/^The run was paused\.\s*first waited for signal 'one'$/), /second/);
    await go(place('NodeRetryScheduled', 'call'));
    await shows(/^call waited for its next attempt, after 1: it was due at \d{4}-\d\d-\d\d [\d:]+ UTC$/);
    // Of the moment after the run had begun there is nothing to say, whatever it waits for now.
    await go(place('NodeSucceeded', 'call'));
    await waits.waitFor({ state: 'detached' });
    holds = true;
    const asked = page.waitForRequest('**/why');
    await go(0);
    await asked;
    await go(place('NodeWaiting', 'first'));
    await shows(/first waited/);
    const answers = page.waitForResponse('**/why');
    for (const letGo of held) letGo();
    await answers;
    assert.doesNotMatch(await shows(/first waited/), /second/);
    assert.deepEqual(page.wrong, []);
  } finally {
    await chromium.browser.close();
    await server.remove();
  }
});
