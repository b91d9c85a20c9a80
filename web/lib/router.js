// The address is the state: which view, and everything chosen in it.

/** @typedef {{ name: string, id: string, params: URLSearchParams }} Route */

/** Tells of every change of the address, as `route`. */
export const routes = new EventTarget();

/** @returns {Route} */
export function route() {
  const parts = location.pathname.split('/').filter(Boolean).map(decode);
  const params = new URLSearchParams(location.search);
  if (parts.length === 0) return { name: 'runs', id: '', params };
  if (parts[0] === 'runs' && parts.length === 1) return { name: 'runs', id: '', params };
  if (parts[0] === 'runs') return { name: 'run', id: parts[1], params };
  if (parts[0] === 'workflows') return { name: parts[1] ? 'workflow' : 'workflows', id: parts[1] ?? '', params };
  if (parts[0] === 'operations') return { name: 'operations', id: '', params };
  if (parts[0] === 'editor') return { name: 'editor', id: '', params };
  return { name: 'missing', id: location.pathname, params };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} href @param {{ replace?: boolean }} [how] */
export function navigate(href, how = {}) {
  if (href === location.pathname + location.search) return;
  if (how.replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  routes.dispatchEvent(new Event('route'));
}

/**
 * Changes parameters of the address; null, '' and false take one out, a list repeats it.
 * @param {Record<string, string | number | boolean | string[] | null | undefined>} changes @param {{ replace?: boolean }} [how]
 */
export function setParams(changes, how = {}) {
  navigate(withParams(changes), how);
}

/** @param {Record<string, string | number | boolean | string[] | null | undefined>} changes */
export function withParams(changes) {
  const params = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    params.delete(key);
    if (Array.isArray(value)) for (const one of value) params.append(key, one);
    else if (value !== null && value !== undefined && value !== '' && value !== false) params.set(key, String(value));
  }
  const search = params.toString();
  return location.pathname + (search ? `?${search}` : '');
}

/** @param {string} id @param {Record<string, string>} [params] */
export function runHref(id, params) {
  const search = params ? new URLSearchParams(params).toString() : '';
  return `/runs/${encodeURIComponent(id)}${search ? `?${search}` : ''}`;
}

/** @param {string} id */
export const workflowHref = (id) => `/workflows/${encodeURIComponent(id)}`;

/** Makes links of this page change the view without loading the page again. */
export function startRouter() {
  addEventListener('popstate', () => routes.dispatchEvent(new Event('route')));
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
    if (link.pathname.startsWith('/api/') || link.pathname.startsWith('/health') || link.pathname === '/metrics') return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
