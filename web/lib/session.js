// Who is signed in: the token, kept for this tab only and never in the address, and what its
// scopes allow. The server decides; this only avoids offering what it would refuse.

const KEY = 'windlass.token';

/** @typedef {{ scopes: Set<string>, tenant: string | null, subject: string | null, expires: number | null }} Claims */

/** @type {string | null} */
let token = read();
/** @type {Claims | null} */
let claims = token ? decode(token) : null;
/** @type {Set<() => void>} */
const listeners = new Set();

function read() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** @param {string} jwt @returns {Claims} */
function decode(jwt) {
  const none = { scopes: new Set(/** @type {string[]} */ ([])), tenant: null, subject: null, expires: null };
  try {
    const part = jwt.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    const body = JSON.parse(new TextDecoder().decode(bytes));
    const words = typeof body.scope === 'string' ? body.scope.split(' ') : Array.isArray(body.scp) ? body.scp : [];
    return {
      scopes: new Set(words.map(String)),
      tenant: typeof body.tenant_id === 'string' ? body.tenant_id : null,
      subject: typeof body.sub === 'string' ? body.sub : null,
      expires: typeof body.exp === 'number' ? body.exp * 1000 : null,
    };
  } catch {
    return none;
  }
}

/** @param {string | null} next */
export function setToken(next) {
  token = next;
  claims = next ? decode(next) : null;
  try {
    if (next) sessionStorage.setItem(KEY, next);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Without storage the token lives in memory, for as long as the page does.
  }
  for (const listener of listeners) listener();
}

export function getToken() {
  return token;
}

export function getClaims() {
  return claims;
}

/** Whether the server would let this caller. Without a token all is allowed, or nothing is. @param {string} scope */
export function can(scope) {
  return claims === null || claims.scopes.has('admin') || claims.scopes.has(scope);
}

/** @param {() => void} listener */
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
