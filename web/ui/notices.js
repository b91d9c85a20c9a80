// What the whole page must say: the server is gone, it is another version, the token ends soon.
import { fill, h } from '../lib/dom.js';
import { connection, connectionState } from '../lib/api.js';
import { getClaims, onSession } from '../lib/session.js';
import { relative } from '../lib/text.js';

const mine = document.querySelector('meta[name="windlass-version"]')?.getAttribute('content') ?? '';
let theirs = mine;

/** @param {HTMLElement} place */
export function startNotices(place) {
  const draw = () => {
    const expires = getClaims()?.expires ?? null;
    const soon = expires !== null && expires - Date.now() < 300_000;
    fill(
      place,
      connectionState() === 'offline'
        ? h(
            'p',
            { class: 'notice bad' },
            'The server cannot be reached. What you see is what was last known; the page reconnects by itself.',
          )
        : null,
      theirs !== mine
        ? h(
            'p',
            { class: 'notice' },
            `This page is of version ${mine}, the server now runs ${theirs}. `,
            h('button', { type: 'button', class: 'link', on: { click: () => location.reload() } }, 'Reload the page'),
          )
        : null,
      soon && expires
        ? h(
            'p',
            { class: 'notice' },
            expires < Date.now() ? 'Your token has expired. Sign in with a new one.' : `Your token expires ${relative(expires)}.`,
          )
        : null,
    );
  };
  connection.addEventListener('state', (event) => {
    draw();
    const detail = /** @type {CustomEvent} */ (event).detail;
    if (detail.state === 'online' && detail.before === 'offline') void compare(draw);
  });
  onSession(draw);
  setInterval(draw, 30_000);
  setInterval(() => void compare(draw), 300_000);
  draw();
}

/** Reads the version of the page that the server has now. @param {() => void} draw */
async function compare(draw) {
  if (!mine || document.hidden) return;
  try {
    const answer = await fetch('/operations', { cache: 'no-store', headers: { Accept: 'text/html' } });
    const found = /<meta name="windlass-version" content="([^"]{1,64})"/.exec((await answer.text()).slice(0, 20_000));
    if (found) theirs = found[1];
    draw();
  } catch {
    // The server is gone again; its return asks once more.
  }
}
