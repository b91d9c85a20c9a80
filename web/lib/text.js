// Text that came from outside, made safe to read: hidden characters become visible, long text
// is cut, times and durations are written for people. Knows neither the page nor the API.

/** Characters that change how others are read, or that cannot be seen. */
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

/** The longest text that one text node gets; the rest is said by its length. */
export const CUT = 2000;

/**
 * Bidirectional controls, zero-width and control characters written as ‹U+202E›.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, (c) => `‹U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`);
}

/**
 * The beginning of a text, and how much is missing.
 * @param {string} text @param {number} [limit]
 */
export function cut(text, limit = CUT) {
  if (text.length <= limit) return text;
  return `${text.slice(0, limit)}… (${number(text.length - limit)} more characters)`;
}

// Made once, and not before the first use: a formatter costs more than a thousand texts.
/** @type {Intl.DateTimeFormat | undefined} */
let moments;

/** With commas, at most three places. A formatter of the browser would delay the first view. @param {number} n */
export function number(n) {
  const [whole, places] = String(Math.round(n * 1000) / 1000).split('.');
  return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (places ? `.${places}` : '');
}

/** A moment in the reader's own time. @param {Date} at */
export function local(at) {
  moments ??= new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'medium' });
  return moments.format(at);
}

/** A moment as the server's sentences write it. @param {string} at its ISO text */
export function utc(at) {
  return `${at.slice(0, 10)} ${at.slice(11, 19)} UTC`;
}

/** The time of day in UTC, as the log has it. @param {string} at its ISO text */
export function clock(at) {
  return at.slice(11, 23);
}

/** A moment in UTC and in the reader's own time. @param {string} at its ISO text */
export function exact(at) {
  const moment = new Date(at);
  return Number.isNaN(moment.getTime()) ? '' : `${moment.toISOString()} (UTC)\n${local(moment)} (local)`;
}

/** @param {number} n @param {string} word @param {string} [many] if it is not the word with an s */
export function plural(n, word, many = `${word}s`) {
  return `${number(n)} ${n === 1 ? word : many}`;
}

/** @param {number} n */
export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1048576) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1048576).toFixed(1)} MiB`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return '–';
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${String(seconds % 60).padStart(2, '0')}s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ${String(Math.floor(seconds / 60) % 60).padStart(2, '0')}m`;
  return `${Math.floor(seconds / 86_400)}d ${Math.floor(seconds / 3600) % 24}h`;
}

/** @param {number} at @param {number} [now] */
export function relative(at, now = Date.now()) {
  const ms = now - at;
  const ahead = ms < 0;
  const s = Math.abs(ms) / 1000;
  let words;
  if (s < 5) return ahead ? 'in a moment' : 'just now';
  if (s < 90) words = `${Math.round(s)} s`;
  else if (s < 5400) words = `${Math.round(s / 60)} min`;
  else if (s < 129_600) words = `${Math.round(s / 3600)} h`;
  else if (s < 5_184_000) words = `${Math.round(s / 86_400)} d`;
  else words = `${Math.round(s / 2_592_000)} months`;
  return ahead ? `in ${words}` : `${words} ago`;
}

/** @param {string} id */
export function shortId(id) {
  return id.length > 18 ? id.slice(0, 13) : id;
}

/** @param {string} text for a POSIX shell */
export function shell(text) {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
