// Small parts that every view uses: times, copy buttons, ids, labels, command lines.
import { fill, h, svg } from '../lib/dom.js';
import { shell, shortId } from '../lib/text.js';
import { runHref } from '../lib/router.js';
import { getToken } from '../lib/session.js';
import { time } from './time.js';

export { time };

/** @param {string | (() => string)} value @param {string} [what] */
export function copyButton(value, what = 'Copy') {
  const button = h('button', { class: 'copy', type: 'button', title: what, 'aria-label': what });
  const sheets = () =>
    svg(
      'svg',
      { viewBox: '0 0 14 14', class: 'copy-icon', 'aria-hidden': 'true' },
      svg('rect', { x: 1.5, y: 1.5, width: 7.5, height: 8.5, rx: 1.5 }),
      svg('path', { d: 'M11.5 4.5h.5a1 1 0 0 1 1 1v6.5a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1v0' }),
    );
  button.append(sheets());
  button.addEventListener('click', async (event) => {
    event.stopPropagation();
    event.preventDefault();
    const text = typeof value === 'function' ? value() : value;
    const done = await copyText(text);
    button.textContent = done ? '✓' : '!';
    button.classList.add('done');
    setTimeout(() => {
      fill(button, sheets());
      button.classList.remove('done');
    }, 1200);
  });
  return button;
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages without TLS have no clipboard API outside of loopback.
    const area = h('textarea', { class: 'offscreen', value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/** @param {string} id @param {Record<string, string>} [params] */
export function runLink(id, params) {
  return h('a', { href: runHref(id, params), class: 'mono id', title: id }, shortId(id));
}

/** @param {Record<string, string>} labels @param {(key: string, value: string) => string} [href] */
export function labelChips(labels, href) {
  const all = Object.entries(labels ?? {});
  const shown = all.slice(0, 6).map(([key, value]) => {
    const words = [h('span', { class: 'key' }, `${key}=`), value];
    return href
      ? h('a', { class: 'chip', href: href(key, value), title: `Only ${key}=${value}` }, words)
      : h('span', { class: 'chip', title: `${key}=${value}` }, words);
  });
  if (all.length > 6)
    shown.push(
      h(
        'span',
        {
          class: 'chip muted',
          title: all
            .slice(6)
            .map(([k, v]) => `${k}=${v}`)
            .join('\n'),
        },
        `+${all.length - 6}`,
      ),
    );
  return h('span', { class: 'chips' }, shown);
}

/** A command to type, with a button that copies it. @param {string} text @param {string} [label] */
export function commandLine(text, label) {
  return h(
    'div',
    { class: 'command' },
    label ? h('span', { class: 'command-label' }, label) : null,
    h('code', { tabindex: '0' }, wordsOf(text)),
    copyButton(text, 'Copy the command'),
  );
}

/** Words stay whole where a line ends: a break after `-` would read as another flag. Spaces lie between them, where a line may end. @param {string} text */
function wordsOf(text) {
  return text.split(/( )/).map((word) => (word !== ' ' && word.length < 24 ? h('span', { class: 'word' }, word) : word));
}

/** A command for the server that this page is of. @param {string} words */
export function cli(words) {
  return `windlass ${words} --server ${shell(location.origin)}${getToken() ? ' --token "$WINDLASS_TOKEN"' : ''}`;
}

/** The same request with curl. @param {string} method @param {string} path @param {any} [body] */
export function curl(method, path, body) {
  const words = ['curl', '-X', method, shell(location.origin + path)];
  if (getToken()) words.push('-H', '"Authorization: Bearer $WINDLASS_TOKEN"');
  if (body !== undefined) words.push('-H', "'Content-Type: application/json'", '-d', shell(JSON.stringify(body)));
  return words.join(' ');
}

/** A request whose body is a file. @param {string} method @param {string} path @param {string} file @param {string} type */
export function curlFile(method, path, file, type) {
  return `${curl(method, path)} -H ${shell(`Content-Type: ${type}`)} --data-binary ${shell(`@${file}`)}`;
}

/** @param {string} name @param {() => void} act */
export function linkButton(name, act) {
  return h('button', { type: 'button', class: 'link', on: { click: act } }, name);
}

/** @param {string} name @param {() => void} act @param {string} [kind] */
export function button(name, act, kind = '') {
  return h('button', { type: 'button', class: `button ${kind}`, on: { click: act } }, name);
}
