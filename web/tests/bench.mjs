/**
 * The page's figures in headless Chromium against a real server, with their targets:
 * `node web/tests/bench.mjs --binary PATH --modules DIR [--only WORD] [--list URL --runs N]
 * [--figures FILE]`. Prints a line for each figure, writes all of them to the file as JSON, and
 * asserts nothing: figures depend on the machine. `--list` names a server that has as many runs as
 * the list is to be measured with.
 */
import { writeFileSync } from 'node:fs';
import { get as request } from 'node:http';
import { cpus, totalmem } from 'node:os';
import { resolve } from 'node:path';

/** @param {string} name */
const given = (name) => {
  const at = process.argv.indexOf(name);
  return at > 0 ? process.argv[at + 1] : undefined;
};
process.env.WINDLASS_BIN = resolve(given('--binary') ?? '');
process.env.PAGE_MODULES = resolve(given('--modules') ?? '');
const { Server, launch } = await import('./harness.mjs');

const OPENINGS = 5;
/** @type {{ figure: string, measured: string, target: string, met: boolean }[]} */
const lines = [];

/** @param {string} figure @param {string} measured @param {string} target @param {boolean} met */
function say(figure, measured, target, met) {
  lines.push({ figure, measured, target, met });
  console.log(`${figure}: ${measured} (target: ${target})${met ? '' : ' MISSED'}`);
}

/** A time in milliseconds against one. @param {string} figure @param {number} ms @param {number} most */
function sayTime(figure, ms, most) {
  say(figure, `${Math.round(ms)} ms`, `${number(most)} ms`, ms <= most);
}

/** @param {number} n */
const number = (n) => n.toLocaleString('en');

/** @param {number[]} values */
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Layers of nodes that each follow two of the layer before: nothing in it is alike. @param {number} count */
function layered(count) {
  const width = Math.ceil(Math.sqrt(count / 2));
  const nodes = [];
  for (let i = 0; i < count; i++) {
    const layer = Math.floor(i / width);
    const before = (layer - 1) * width;
    const parents = layer === 0 ? [] : [...new Set([before + ((i * 7) % width), before + ((i * 13 + layer) % width)])];
    nodes.push({ id: `n${i}`, name: `Step ${i}`, actionType: 'core.echo', dependsOn: parents.map((parent) => `n${parent}`) });
  }
  return { id: `layered-${count}`, nodes };
}

/** One node, and all others after it: drawn as two boxes. @param {number} count */
function fanOut(count) {
  const nodes = [{ id: 'first', actionType: 'core.echo' }];
  for (let i = 1; i < count; i++) nodes.push({ id: `n${i}`, actionType: 'core.echo', dependsOn: ['first'] });
  return { id: `fan-out-${count}`, nodes };
}

/** @param {any} server @param {any} definition */
async function ended(server, definition) {
  await server.publish(definition);
  const id = await server.run(definition.id);
  for (;;) {
    const run = await server.api('GET', `/executions/${id}/statuses`);
    if (run.status === 'Succeeded') return id;
    if (run.status === 'Failed') throw new Error(`run ${id} failed`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

/** Milliseconds from the navigation until something is shown, the middle of several. @param {any} chromium @param {any} server @param {string} path @param {string} selector */
async function opening(chromium, server, path, selector) {
  const times = [];
  for (let i = 0; i < OPENINGS; i++) {
    const page = await chromium.page(server);
    await page.addInitScript(watch, selector);
    await page.goTo(path);
    const handle = await page.waitForFunction(when, null, { polling: 'raf', timeout: 60_000 });
    times.push(await handle.jsonValue());
    if (page.wrong.length) throw new Error(page.wrong.join('\n'));
    await page.done();
  }
  return median(times);
}

/**
 * Notes, from the beginning of the page on, when the frame is done that shows an element with this
 * selector, or the graph. Asking only after the page has loaded would count that too. A view is
 * hidden behind the server's HTML until it has its data; what is drawn before that is not shown.
 * @param {string} selector
 */
function watch(selector) {
  const marked = (/** @type {string} */ name) => performance.getEntriesByName(name).length > 0;
  const look = () => {
    const there = marked('view-shown') && (selector === 'graph' ? marked('graph-painted') : document.querySelector(selector));
    if (!there) requestAnimationFrame(look);
    else setTimeout(() => (/** @type {any} */ (globalThis).shownAt = performance.now()));
  };
  requestAnimationFrame(look);
}

/** When it was shown; 0 before. */
const when = () => /** @type {any} */ (globalThis).shownAt ?? 0;

/** Frames a second, and the longest, while `act` goes on. @param {any} page @param {() => Promise<void>} act */
async function frames(page, act) {
  await page.evaluate(() => {
    const at = (/** @type {any} */ (globalThis).frameTimes = [performance.now()]);
    const next = () => {
      at.push(performance.now());
      if (/** @type {any} */ (globalThis).frameTimes === at) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await act();
  const at = await page.evaluate(() => {
    const times = /** @type {any} */ (globalThis).frameTimes;
    /** @type {any} */ (globalThis).frameTimes = null;
    return times;
  });
  const gaps = at.slice(1).map((/** @type {number} */ time, /** @type {number} */ i) => time - at[i]);
  return {
    rate: (gaps.length * 1000) / (at[at.length - 1] - at[0]),
    longest: Math.max(...gaps),
    late: gaps.filter((/** @type {number} */ gap) => gap > 100).length,
  };
}

/** @param {any} chromium @param {any} server */
async function runs(chromium, server) {
  for (const [count, target, make] of /** @type {[number, number, (count: number) => any][]} */ ([
    [1_000, 300, layered],
    [10_000, 800, layered],
    [100_000, 2000, fanOut],
  ])) {
    const id = await ended(server, make(count));
    const what = `first paint of a run of ${number(count)} nodes${make === fanOut ? ', collapsed' : ''}`;
    sayTime(what, await opening(chromium, server, `/runs/${id}`, 'graph'), target);
    if (count === 10_000) await moving(chromium, server, id);
  }
}

/** Pan and zoom with the whole graph in view. @param {any} chromium @param {any} server @param {string} id */
async function moving(chromium, server, id) {
  const page = await chromium.page(server);
  await page.addInitScript(watch, 'graph');
  await page.goTo(`/runs/${id}`);
  await page.waitForFunction(when);
  await page.waitForLoadState('networkidle');
  const box = await page.locator('w-graph canvas').first().boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  const seen = await frames(page, async () => {
    await page.mouse.down();
    for (let i = 0; i < 120; i++) await page.mouse.move(x + 40 * Math.sin(i / 8), y + 30 * Math.cos(i / 8));
    await page.mouse.up();
    for (let i = 0; i < 60; i++) await page.mouse.wheel(0, i % 20 < 10 ? -40 : 40);
  });
  const words = `${seen.rate.toFixed(0)} frames/s, longest ${Math.round(seen.longest)} ms`;
  say('pan and zoom over 10,000 nodes in view', words, '50 frames/s', seen.rate >= 50);
  if (page.wrong.length) throw new Error(page.wrong.join('\n'));
  await page.done();
}

/** A minute of a run that changes a thousand statuses a second. @param {any} chromium @param {any} server @param {number} seconds */
async function changes(chromium, server, seconds) {
  const items = Array.from({ length: 1_000 * (seconds + 20) }, (_, i) => i);
  await server.publish({
    id: 'changing',
    maxParallel: 25,
    nodes: [
      {
        id: 'each',
        forEach: {
          items: '{{ trigger }}',
          maxConcurrency: 25,
          body: { nodes: [{ id: 'work', actionType: 'core.sleep', parameters: { ms: 24 } }] },
        },
      },
    ],
  });
  const id = await server.run('changing', { trigger: items });
  const page = await chromium.page(server);
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    const { metrics } = await session.send('Performance.getMetrics');
    return metrics.find((/** @type {any} */ metric) => metric.name === 'JSHeapUsedSize').value / 1024 / 1024;
  };
  await session.send('Performance.enable');
  await page.addInitScript(watch, 'graph');
  await page.goTo(`/runs/${id}?node=each`);
  await page.waitForFunction(when);
  await new Promise((done) => setTimeout(done, 10_000));
  const [before, first] = [await heap(), await server.api('GET', `/executions/${id}/statuses`)];
  const begun = Date.now();
  const seen = await frames(page, () => new Promise((done) => setTimeout(done, seconds * 1000)));
  const [last, took] = [await server.api('GET', `/executions/${id}/statuses`), (Date.now() - begun) / 1000];
  const after = await heap();
  const rate = Math.round((last.sequence - first.sequence) / took);
  say(
    `a run that changes ${number(rate)} times a second, for ${seconds} s`,
    `longest frame ${Math.round(seen.longest)} ms, ${seen.late} over 100 ms, memory ${before.toFixed(1)} to ${after.toFixed(1)} MiB`,
    '1,000 changes a second, no frame over 100 ms, memory does not grow',
    rate >= 1000 && seen.late === 0 && after < before * 1.2 + 1,
  );
  await server.api('POST', `/executions/${id}/cancel`, {});
  if (page.wrong.length) throw new Error(page.wrong.join('\n'));
  await page.done();
}

/** @param {any} chromium @param {any} server */
async function events(chromium, server) {
  const body = { nodes: ['a', 'b', 'c'].map((name, i, all) => ({ id: name, actionType: 'core.echo', dependsOn: i ? [all[i - 1]] : [] })) };
  const nodes = [{ id: 'each', forEach: { items: '{{ trigger }}', body } }];
  await server.publish({ id: 'eventful', nodes });
  const id = await server.run('eventful', { trigger: Array.from({ length: 126_000 }, () => 0) });
  let at = await server.api('GET', `/executions/${id}/statuses`);
  while (at.status === 'Running' || at.status === 'Pending') {
    await new Promise((done) => setTimeout(done, 500));
    at = await server.api('GET', `/executions/${id}/statuses`);
  }
  const took = await opening(chromium, server, `/runs/${id}?pane=events`, 'w-events .event-kind');
  sayTime(`a log of ${number(at.sequence)} events opens at its tail`, took, 300);
}

/** All files of the page, as they travel. @param {any} server */
async function size(server) {
  const html = await fetch(`${server.url}/operations`).then((answer) => answer.text());
  const paths = ['/operations', ...[...html.matchAll(/"(\/assets\/[^"]+)"/g)].map((found) => found[1])];
  const sizes = await Promise.all(paths.map((path) => travels(server.url + path)));
  const all = sizes.reduce((sum, bytes) => sum + bytes, 0);
  say('the whole page, compressed', `${(all / 1024).toFixed(1)} KiB in ${paths.length} files`, '150 KiB', all <= 150 * 1024);
}

/** @param {string} url @returns {Promise<number>} */
function travels(url) {
  return new Promise((done, fail) =>
    request(url, { headers: { 'Accept-Encoding': 'gzip' } }, (answer) => {
      let bytes = 0;
      if (answer.statusCode !== 200) fail(new Error(`${url}: ${answer.statusCode}`));
      answer.on('data', (data) => (bytes += data.length)).on('end', () => done(bytes));
    }).on('error', fail),
  );
}

const only = given('--only') ?? '';
const chromium = await launch();
const listed = given('--list');
if (listed && 'list'.includes(only)) {
  const server = { url: listed, port: new URL(listed).port };
  const { items } = await fetch(`${listed}/api/v1/executions?limit=1`).then((answer) => answer.json());
  if (!items.length) throw new Error(`${listed} has no runs`);
  for (const path of ['/', '/?status=Failed', '/?workflow=waits'])
    sayTime(
      `the list \`${path}\` among ${number(Number(given('--runs') ?? 0))} runs`,
      await opening(chromium, server, path, 'main w-runs .run-row:not(.head), main w-runs .empty'),
      200,
    );
}
if (['size', 'runs', 'changes', 'events'].some((name) => name.includes(only))) {
  const server = await Server.start([], { WINDLASS_RATE_LIMIT: '0' });
  try {
    if ('size'.includes(only)) await size(server);
    if ('runs'.includes(only)) await runs(chromium, server);
    if ('changes'.includes(only)) await changes(chromium, server, Number(given('--seconds') ?? 60));
    if ('events'.includes(only)) await events(chromium, server);
  } finally {
    await server.remove();
  }
}
const browser = chromium.browser.version();
await chromium.browser.close();
// Every page of these measurements throws where a request goes to another host.
say('requests to other hosts', '0', '0', true);
const machine = `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Chromium ${browser} without a GPU.`;
const figures = given('--figures');
if (figures) writeFileSync(figures, JSON.stringify({ machine, figures: lines }, null, 2));
console.log(`\n${machine}\n\n| figure | measured | target |\n| --- | --- | --- |`);
for (const { figure, measured, target } of lines) console.log(`| ${figure} | ${measured} | ${target} |`);
