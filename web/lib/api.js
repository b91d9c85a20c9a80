// The one way to the server: requests with the token, errors as objects, and whether the server
// can be reached. Nothing else in the page calls fetch.
import { getToken } from './session.js';

/** @typedef {'online' | 'offline' | 'signed-out'} Connection */

/** What the server answered instead. */
export class ApiError extends Error {
  /** @param {number} status @param {any} body @param {number} [retryAfter] */
  constructor(status, body, retryAfter) {
    const error = body?.error ?? {};
    super(typeof error.message === 'string' ? error.message : status ? `the server answered ${status}` : 'the server cannot be reached');
    this.status = status;
    /** @type {string} */
    this.code = error.code ?? (status ? `HTTP_${status}` : 'UNREACHABLE');
    /** @type {string | null} */
    this.hint = error.hint ?? null;
    /** @type {any[]} */
    this.details = Array.isArray(error.details) ? error.details : [];
    /** @type {string | null} */
    this.correlationId = error.correlationId ?? null;
    this.retryAfter = retryAfter ?? 0;
  }
}

/** Tells what happens to the connection: `state`, with the new one as detail. */
export const connection = new EventTarget();
/** @type {Connection} */
let state = 'online';
let probing = false;

export function connectionState() {
  return state;
}

/** @param {Connection} next */
function become(next) {
  if (state === next) return;
  const before = state;
  state = next;
  connection.dispatchEvent(new CustomEvent('state', { detail: { state, before } }));
}

/** Asks until the server answers again, ever less often, at most every 5 s. */
async function probe() {
  if (probing) return;
  probing = true;
  for (let wait = 500; state === 'offline'; wait = Math.min(wait * 1.5, 5000)) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      const answer = await fetch('/health/live', { cache: 'no-store' });
      if (answer.status < 500) become('online');
    } catch {
      // Still gone.
    }
  }
  probing = false;
}

/**
 * @typedef {object} Asked
 * @property {any} [body] sent as JSON
 * @property {string} [text] sent as it is, with `type`
 * @property {string} [type]
 * @property {string} [accept]
 * @property {string} [key] an Idempotency-Key
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 */

/**
 * A request to the API; its answer is not read yet.
 * @param {string} method @param {string} path @param {Asked} [asked]
 * @returns {Promise<Response>}
 */
export async function request(method, path, asked = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: asked.accept ?? 'application/json' };
  const token = getToken();
  if (token) headers.Authorization = `Bearer ${token}`;
  Object.assign(headers, asked.headers);
  if (asked.key) headers['Idempotency-Key'] = asked.key;
  if (asked.body !== undefined) headers['Content-Type'] = 'application/json';
  if (asked.text !== undefined) headers['Content-Type'] = asked.type ?? 'application/json';
  const body = asked.body !== undefined ? JSON.stringify(asked.body) : asked.text;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body, signal: asked.signal, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    become('offline');
    void probe();
    throw new ApiError(0, null);
  }
  if (answer.status !== 401) become('online');
  if (answer.ok) return answer;
  const failure = new ApiError(answer.status, await answer.json().catch(() => null), Number(answer.headers.get('Retry-After') ?? 0));
  if (answer.status === 401) become('signed-out');
  throw failure;
}

/**
 * A request, and its answer as JSON.
 * @param {string} method @param {string} path @param {Asked} [asked]
 * @returns {Promise<any>}
 */
export async function api(method, path, asked) {
  const answer = await request(method, path, asked);
  return answer.status === 204 ? null : answer.json();
}

/** @param {string} path @param {AbortSignal} [signal] */
export function get(path, signal) {
  return api('GET', path, { signal });
}

/**
 * The answer, or null where there is none such (404): for what older servers lack.
 * @param {string} path @param {AbortSignal} [signal]
 */
export async function getIfAny(path, signal) {
  try {
    return await get(path, signal);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400 || error.status === 403)) return null;
    throw error;
  }
}

/** The address that the server rendered. */
const rendered = location.pathname + location.search;

/**
 * An answer that the server wrote into the HTML of this address, the first time it is asked for:
 * it saves the view a request. Null where there is none, or another address is shown by now.
 * @param {string} name @returns {any}
 */
export function rememberedAnswer(name) {
  const place = document.querySelector(`script[data-answer="${name}"]`);
  place?.remove();
  return place && location.pathname + location.search === rendered ? JSON.parse(place.textContent ?? 'null') : null;
}

/** @param {string} id */
export const runPath = (id) => `/api/v1/executions/${encodeURIComponent(id)}`;
/** @param {string} id */
export const workflowPath = (id) => `/api/v1/workflows/${encodeURIComponent(id)}`;

/** A key for a request that may be repeated. */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')}`;
}

/** Called when the server is back. @param {() => void} work */
export function onReturn(work) {
  const listener = (/** @type {any} */ event) => {
    if (event.detail.state === 'online') work();
  };
  connection.addEventListener('state', listener);
  return () => connection.removeEventListener('state', listener);
}

/** How often lists ask again: tokens have a rate of 60 requests per minute. */
export function pollMs() {
  return getToken() ? 15_000 : 4_000;
}
