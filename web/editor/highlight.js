// Colours for JSON and YAML, line by line, as text nodes; problems are underlined. Not a parser:
// the server is the one that says what is wrong.
import { h } from '../lib/dom.js';
import { visible } from '../lib/text.js';

const TOKENS = {
  json: /("(?:[^"\\\n]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g,
  yaml: /(#[^\n]*$)|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(\s*:(?=\s|$))?|((?:^|(?<=[\s{,-]))[A-Za-z0-9_$.-]+)(\s*:(?=\s|$))|(?<=[\s:[,]|^)(-?\d+(?:\.\d+)?)(?=[\s,\]}]|$)|\b(true|false|null)\b/gm,
};

/** @typedef {{ line: number, column: number, length: number, severity: string }} Mark */

/**
 * The text as elements, at most 3,000 lines of it.
 * @param {string} text @param {'json' | 'yaml'} language @param {Mark[]} marks
 */
export function highlight(text, language, marks) {
  const lines = text.split('\n');
  /** @type {Map<number, Mark[]>} */
  const byLine = new Map();
  for (const mark of marks) byLine.set(mark.line, [...(byLine.get(mark.line) ?? []), mark]);
  const fragment = document.createDocumentFragment();
  lines.forEach((line, i) => {
    if (i < 3000) for (const part of parts(line, language, byLine.get(i + 1) ?? [])) fragment.append(part);
    else fragment.append(standIns(line));
    fragment.append('\n');
  });
  return fragment;
}

/** One sign for each hidden character, so that columns stay. @param {string} text */
function standIns(text) {
  return visible(text).replace(/‹U\+[0-9A-F]+›/g, '␦');
}

/** @param {string} line @param {'json' | 'yaml'} language @param {Mark[]} marks */
function parts(line, language, marks) {
  if (line.length > 2000) return [document.createTextNode(standIns(line))];
  const kinds = new Array(line.length).fill('');
  const set = (/** @type {number} */ from, /** @type {number} */ length, /** @type {string} */ kind) =>
    kinds.fill(kind, from, Math.min(from + length, line.length));
  for (const match of line.matchAll(TOKENS[language])) {
    if (language === 'json') {
      const kind = match[1] !== undefined ? (match[2] ? 'key' : 'str') : match[3] !== undefined ? 'num' : 'lit';
      set(match.index, (match[1] ?? match[0]).length, kind);
    } else {
      const kind = match[1] ? 'com' : match[2] ? (match[3] ? 'key' : 'str') : match[4] ? 'key' : match[6] ? 'num' : 'lit';
      set(match.index, (match[1] ?? match[2] ?? match[4] ?? match[0]).length, kind);
    }
  }
  for (const match of line.matchAll(/\{\{.*?\}\}/g)) set(match.index, match[0].length, 'tpl');
  const under = new Array(line.length).fill('');
  for (const mark of marks)
    under.fill(
      mark.severity === 'error' ? 'bad' : 'warn',
      Math.max(0, mark.column - 1),
      Math.max(mark.column, mark.column - 1 + Math.max(mark.length, 1)),
    );
  /** @type {Node[]} */
  const result = [];
  for (let from = 0; from < line.length;) {
    let to = from + 1;
    while (to < line.length && kinds[to] === kinds[from] && under[to] === under[from]) to++;
    const classes = [kinds[from] && `hl-${kinds[from]}`, under[from] && `hl-${under[from]}`].filter(Boolean).join(' ');
    const node = document.createTextNode(standIns(line.slice(from, to)));
    if (classes) {
      const span = h('span', { class: classes });
      span.append(node);
      result.push(span);
    } else result.push(node);
    from = to;
  }
  return result;
}
