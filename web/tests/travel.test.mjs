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

test('after every event the page shows what the engine folds up to it', async () => {
  const server = await Server.start();
  const chromium = await launch();
  try {
    await server.publish(story);
    const run = await server.run('story');
    await server.until(run, (now) => now.status === 'Failed');
    const { items } = await server.api('GET', `/executions/${run}/events?limit=1000`);
    const page = await chromium.page(server);
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
    assert.deepEqual(page.wrong, []);
  } finally {
    await chromium.browser.close();
    await server.remove();
  }
});
