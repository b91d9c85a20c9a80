// The header: where one can go, the search, the state of the connection, who is signed in.
import { fill, h } from '../lib/dom.js';
import { connection, connectionState, get } from '../lib/api.js';
import { can, getClaims, getToken, onSession, setToken } from '../lib/session.js';
import { navigate, route, routes, runHref, workflowHref } from '../lib/router.js';
import { badge } from '../lib/status.js';
import { debounce } from '../lib/dom.js';

const PLACES = [
  { name: 'Runs', href: '/', views: ['runs', 'run'] },
  { name: 'Workflows', href: '/workflows', views: ['workflows', 'workflow', 'editor'] },
  { name: 'Operations', href: '/operations', views: ['operations'] },
];

/** @param {HTMLElement} place */
export function startHeader(place) {
  const nav = h('nav', { 'aria-label': 'Main' });
  const state = h('span', { class: 'connection', role: 'status' });
  const who = h('span', { class: 'who' });
  const drawNav = () => {
    const now = route().name;
    fill(
      nav,
      PLACES.map(({ name, href, views }) => h('a', { href, 'aria-current': views.includes(now) ? 'page' : null }, name)),
    );
  };
  const drawState = () => {
    const now = connectionState();
    const words = { online: 'Connected', offline: 'Reconnecting', 'signed-out': 'Signed out' };
    state.dataset.state = now;
    fill(state, h('span', { class: 'dot', 'aria-hidden': 'true' }), h('span', { class: 'word' }, words[now]));
  };
  const drawWho = () => {
    const claims = getClaims();
    fill(who);
    if (!getToken()) return;
    fill(
      who,
      h(
        'span',
        { class: 'muted', title: `Scopes: ${[...(claims?.scopes ?? [])].join(', ')}` },
        claims?.tenant ?? claims?.subject ?? 'token',
      ),
      h('button', { type: 'button', class: 'link', on: { click: signOut } }, 'Sign out'),
    );
  };
  fill(place, h('a', { class: 'brand', href: '/' }, mark(), h('span', null, 'Windlass')), nav, search(), state, who);
  routes.addEventListener('route', drawNav);
  connection.addEventListener('state', drawState);
  onSession(drawWho);
  drawNav();
  drawState();
  drawWho();
}

function signOut() {
  setToken(null);
  navigate('/');
}

function mark() {
  return h('img', { src: document.querySelector('link[rel="icon"]')?.getAttribute('href'), alt: '', width: '20', height: '20' });
}

function search() {
  const list = h('ul', { id: 'search-results', role: 'listbox', hidden: true, 'aria-label': 'Found' });
  const input = h('input', {
    type: 'search',
    placeholder: 'Run id, workflow …',
    'aria-label': 'Search runs and workflows',
    autocomplete: 'off',
    spellcheck: 'false',
    role: 'combobox',
    'aria-expanded': 'false',
    'aria-controls': 'search-results',
    'aria-autocomplete': 'list',
  });
  let at = -1;
  /** @type {string[]} */
  let hrefs = [];
  /** The words that were looked up, and whether Enter came before their answer. */
  let known = '';
  let isEntered = false;
  const close = () => {
    list.hidden = true;
    input.setAttribute('aria-expanded', 'false');
    input.removeAttribute('aria-activedescendant');
  };
  const go = (/** @type {number} */ i) => {
    const href = hrefs[i];
    if (!href) return;
    close();
    input.value = '';
    input.blur();
    navigate(href);
  };
  const mark = () =>
    [...list.children].forEach((item, i) => {
      item.setAttribute('aria-selected', String(i === at));
      if (i === at) input.setAttribute('aria-activedescendant', item.id);
    });
  const find = debounce(160, async () => {
    const words = input.value.trim();
    const found = await lookUp(words);
    // Other words may have been typed by now, and their answer come first.
    if (words !== input.value.trim()) return;
    known = words;
    hrefs = found.map((item) => item.href);
    at = found.length ? 0 : -1;
    fill(
      list,
      found.map((item, i) =>
        h('li', { role: 'option', id: `found-${i}`, on: { mousedown: (/** @type {Event} */ e) => (e.preventDefault(), go(i)) } }, item.row),
      ),
    );
    if (isEntered && found.length) {
      isEntered = false;
      return go(0);
    }
    if (!found.length && words) fill(list, h('li', { class: 'muted', role: 'option' }, 'Nothing found'));
    list.hidden = !words || document.activeElement !== input;
    input.setAttribute('aria-expanded', String(!list.hidden));
    mark();
  });
  input.addEventListener('input', () => {
    isEntered = false;
    find();
  });
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') input.blur();
    else if (event.key === 'Enter' && input.value.trim() !== known) isEntered = true;
    else if (event.key === 'Enter') go(Math.max(at, 0));
    else if (event.key === 'ArrowDown') at = Math.min(at + 1, hrefs.length - 1);
    else if (event.key === 'ArrowUp') at = Math.max(at - 1, 0);
    else return;
    event.preventDefault();
    mark();
  });
  document.addEventListener('keydown', (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (event.key !== '/' || event.ctrlKey || event.metaKey || target?.closest('input, textarea, select, dialog')) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  return h('div', { class: 'search' }, input, h('kbd', { 'aria-hidden': 'true' }, '/'), list);
}

/** @param {string} words @returns {Promise<{ href: string, row: Node[] }[]>} */
async function lookUp(words) {
  if (!words || !can('workflows:read')) return [];
  const found = [];
  if (/^[0-9a-f-]{4,36}$/i.test(words)) {
    const runs = await get(`/api/v1/executions?limit=8&prefix=${encodeURIComponent(words.toLowerCase())}`).catch(() => null);
    for (const run of runs?.items ?? []) {
      found.push({
        href: runHref(run.executionId),
        row: [badge(run.status), h('span', { class: 'mono' }, run.executionId), h('span', { class: 'muted' }, run.workflowId)],
      });
    }
  }
  const workflows = await get('/api/v1/workflows?limit=1000').catch(() => null);
  const needle = words.toLowerCase();
  for (const item of workflows?.items ?? []) {
    if (!`${item.workflowId} ${item.displayName ?? ''}`.toLowerCase().includes(needle)) continue;
    found.push({
      href: workflowHref(item.workflowId),
      row: [
        h('span', { class: 'kind' }, 'workflow'),
        h('span', null, item.displayName ?? item.workflowId),
        h('span', { class: 'muted mono' }, item.workflowId),
      ],
    });
    if (found.length > 12) break;
  }
  return found;
}
