/**
 * A server of its own on a free port, a browser that talks to loopback only, and pages that fail
 * the test on a script error, a violated policy or a request to another host.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';

const modules = createRequire(join(process.env.PAGE_MODULES ?? join(process.cwd(), 'node_modules'), 'x.js'));
const { chromium } = modules('playwright-core');
export const AXE = modules.resolve('axe-core/axe.min.js');

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.once('error', fail);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
      probe.close(() => done(port));
    });
  });
}

export class Server {
  /** @param {string[]} [words] further arguments @param {Record<string, string>} [variables] */
  static async start(words = [], variables = {}) {
    const server = new Server();
    server.directory = mkdtempSync(join(tmpdir(), 'windlass-page-'));
    server.words = words;
    server.variables = variables;
    server.port = await freePort();
    await server.up();
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async up() {
    const binary = process.env.WINDLASS_BIN;
    if (!binary) throw new Error('WINDLASS_BIN names the binary to test');
    this.process = spawn(
      binary,
      ['serve', '--data-dir', /** @type {string} */ (this.directory), '--listen', `127.0.0.1:${this.port}`, ...(this.words ?? [])],
      { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...this.variables } },
    );
    let said = '';
    this.process.stderr.on('data', (data) => (said = (said + data).slice(-4000)));
    const ended = new Promise((_, fail) => this.process.once('exit', (code) => fail(new Error(`the server ended with ${code}: ${said}`))));
    ended.catch(() => {});
    const answers = (async () => {
      for (;;) {
        const answer = await fetch(`${this.url}/health/ready`).catch(() => null);
        if (answer?.ok) return;
        await new Promise((done) => setTimeout(done, 40));
      }
    })();
    await Promise.race([answers, ended]);
  }

  /** @param {NodeJS.Signals} [signal] */
  async down(signal = 'SIGTERM') {
    const gone = new Promise((done) => this.process.once('exit', done));
    this.process.kill(signal);
    await gone;
  }

  async remove() {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.down('SIGKILL');
    this.process.stderr?.destroy();
    rmSync(/** @type {string} */ (this.directory), { recursive: true, force: true });
  }

  /** @param {string} method @param {string} path @param {any} [body] */
  async api(method, path, body) {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** @param {any} definition */
  publish(definition) {
    return this.api('POST', '/workflows', definition);
  }

  /** @param {string} id @param {any} [body] @returns {Promise<string>} */
  async run(id, body = {}) {
    return (await this.api('POST', `/workflows/${id}/execute`, body)).executionId;
  }

  /** @param {string} id @param {(run: any) => boolean} is */
  async until(id, is) {
    for (;;) {
      const run = await this.api('GET', `/executions/${id}`);
      if (is(run)) return run;
      await new Promise((done) => setTimeout(done, 30));
    }
  }
}

const MEDIA = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** Modules and styles from a folder instead of those in the binary, so that a change needs no build. @param {any} page @param {string} folder */
async function overlay(page, folder) {
  await page.route('**/assets/**', async (/** @type {any} */ route) => {
    const name = new URL(route.request().url()).pathname.replace(/^\/assets\/([0-9a-f]{16}\/)?/, '');
    const path = join(folder, name);
    if (name !== 'app.css' && !existsSync(path)) return route.continue();
    const body = name === 'app.css' ? styles(folder) : readFileSync(path);
    return route.fulfill({ body, contentType: MEDIA[/** @type {keyof typeof MEDIA} */ (extname(name))] });
  });
}

/** All styles together, as the server joins them. @param {string} folder */
function styles(folder) {
  const names = readdirSync(join(folder, 'css')).sort();
  return names.map((name) => readFileSync(join(folder, 'css', name), 'utf8')).join('');
}

export async function launch() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: FLAGS });
  return {
    browser,
    /** A page that remembers everything that must not happen. @param {Server} server @param {{ width?: number, height?: number, scheme?: string }} [how] */
    async page(server, how = {}) {
      const context = await browser.newContext({
        viewport: { width: how.width ?? 1440, height: how.height ?? 900 },
        colorScheme: how.scheme ?? 'light',
      });
      const page = await context.newPage();
      /** @type {string[]} */
      const wrong = [];
      page.on('pageerror', (/** @type {Error} */ error) => wrong.push(`script error: ${error.stack}`));
      page.on('console', (/** @type {any} */ message) => {
        if (/Content Security Policy|Refused to/i.test(message.text())) wrong.push(`policy: ${message.text()}`);
      });
      page.on('request', (/** @type {any} */ request) => {
        const { protocol, host } = new URL(request.url());
        if (protocol.startsWith('http') && host !== `127.0.0.1:${server.port}`) wrong.push(`a request to ${request.url()}`);
      });
      page.setDefaultTimeout(120_000);
      if (process.env.PAGE_WEB) await overlay(page, process.env.PAGE_WEB);
      return Object.assign(page, {
        wrong,
        goTo: (/** @type {string} */ path) => page.goto(server.url + path),
        done: () => context.close(),
      });
    },
  };
}

/** Waits until there are exactly so many. @param {any} locator @param {number} count */
export async function counted(locator, count) {
  if (count > 0) await locator.nth(count - 1).waitFor();
  await locator.nth(count).waitFor({ state: 'detached' });
}

/** Waits until the view has replaced the server's HTML. @param {any} page */
export async function taken(page) {
  await page.waitForFunction(
    () => document.querySelector('main')?.firstElementChild?.localName.startsWith('w-') && !document.querySelector('.mounting'),
  );
}

/** @param {any} page */
export async function noSidewaysScrolling(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
