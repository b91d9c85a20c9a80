// The page's beginning: the header, the notices above the content, and which view the address
// means. A view's modules are called when it is first shown.
import { fill, h, setTitle } from './lib/dom.js';
import { route, routes, startRouter } from './lib/router.js';
import { connection, connectionState } from './lib/api.js';
import { onSession } from './lib/session.js';
import { startHeader } from './ui/header.js';
import { startNotices } from './ui/notices.js';
import './ui/bits.js';

/** @type {Record<string, { tag: string, load: () => Promise<unknown>, title: string }>} */
const VIEWS = {
  runs: { tag: 'w-runs', load: () => import('./views/runs.js'), title: 'Runs' },
  run: { tag: 'w-run', load: () => import('./views/run.js'), title: 'Run' },
  workflows: { tag: 'w-workflows', load: () => import('./views/workflows.js'), title: 'Workflows' },
  workflow: { tag: 'w-workflow', load: () => import('./views/workflow.js'), title: 'Workflow' },
  editor: { tag: 'w-editor', load: () => import('./views/editor.js'), title: 'Editor' },
  operations: { tag: 'w-operations', load: () => import('./views/operations.js'), title: 'Operations' },
};

const main = /** @type {HTMLElement} */ (document.getElementById('app'));
let shown = '';
let mounted = false;

async function show() {
  const now = route();
  const signedOut = connectionState() === 'signed-out';
  const key = signedOut ? 'signin' : `${now.name} ${now.id}`;
  document.body.dataset.view = signedOut ? 'signin' : now.name;
  if (key === shown) return;
  shown = key;
  if (signedOut) {
    await import('./views/signin.js');
    fill(main, document.createElement('w-signin'));
    return;
  }
  const view = VIEWS[now.name];
  if (!view) {
    setTitle('Not found');
    fill(
      main,
      h(
        'div',
        { class: 'page' },
        h('h1', null, 'There is no such page'),
        h('p', null, h('code', null, now.id)),
        h('a', { href: '/' }, 'All runs'),
      ),
    );
    return;
  }
  setTitle(`${now.id || view.title}`);
  await view.load();
  if (shown === key) mount(document.createElement(view.tag));
}

/** The server's HTML stays until the first view has its data. @param {HTMLElement} view */
function mount(view) {
  if (mounted || !main.childElementCount) return fill(main, view);
  mounted = true;
  view.classList.add('mounting');
  const swap = () => {
    if (!view.classList.contains('mounting')) return;
    view.classList.remove('mounting');
    performance.mark('view-shown');
    if (view.isConnected) for (const other of [...main.childNodes]) if (other !== view) other.remove();
  };
  view.addEventListener('ready', swap, { once: true });
  setTimeout(swap, 2000);
  main.append(view);
}

startRouter();
startHeader(/** @type {HTMLElement} */ (document.getElementById('header')));
startNotices(/** @type {HTMLElement} */ (document.getElementById('notices')));
routes.addEventListener('route', () => void show());
// The sign-in knows that a token is good before it is set: the view begins when it is.
connection.addEventListener('state', (/** @type {any} */ event) => event.detail.before === 'signed-out' || void show());
onSession(() => {
  shown = '';
  void show();
});
void show();
