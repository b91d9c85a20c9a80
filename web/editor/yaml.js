// Reads the part of YAML that definitions are written in, to draw the graph beside a draft. The
// server reads the real document; what this cannot read is drawn as far as it goes.

/** @typedef {{ indent: number, text: string }} Line */

/** @param {string} source @returns {any} */
export function readYaml(source) {
  /** @type {Line[]} */
  const lines = [];
  for (const raw of source.split('\n')) {
    const text = stripComment(raw.replace(/\t/g, '  '));
    if (text.trim() && text.trim() !== '---') lines.push({ indent: text.length - text.trimStart().length, text: text.trim() });
  }
  const reader = { lines, at: 0 };
  return block(reader, lines[0]?.indent ?? 0, 0);
}

/** @param {string} line */
function stripComment(line) {
  let quote = '';
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quote) {
      if (c === '\\' && quote === '"') i++;
      else if (c === quote) quote = '';
    } else if (c === '"' || c === "'") {
      if (i === 0 || /[\s:[{,-]/.test(line[i - 1])) quote = c;
    } else if (c === '#' && (i === 0 || /\s/.test(line[i - 1]))) return line.slice(0, i);
  }
  return line;
}

/** @param {{ lines: Line[], at: number }} reader @param {number} indent @param {number} depth @returns {any} */
function block(reader, indent, depth) {
  const first = reader.lines[reader.at];
  if (!first || depth > 60) return null;
  if (first.text.startsWith('- ') || first.text === '-') return sequence(reader, indent, depth);
  return mapping(reader, indent, depth);
}

/** @param {{ lines: Line[], at: number }} reader @param {number} indent @param {number} depth */
function sequence(reader, indent, depth) {
  /** @type {any[]} */
  const items = [];
  for (
    let line = reader.lines[reader.at];
    line && line.indent === indent && (line.text.startsWith('- ') || line.text === '-');
    line = reader.lines[reader.at]
  ) {
    const rest = line.text.slice(1).trimStart();
    if (!rest) {
      reader.at++;
      const next = reader.lines[reader.at];
      items.push(next && next.indent > indent ? block(reader, next.indent, depth + 1) : null);
    } else if (/^(?:"[^"]*"|'[^']*'|[^\s'"[{][^:]*?):(?:\s|$)/.test(rest)) {
      const inner = indent + line.text.length - rest.length;
      reader.lines[reader.at] = { indent: inner, text: rest };
      items.push(mapping(reader, inner, depth + 1));
    } else items.push(scalarOrFlow(reader, rest, indent));
  }
  return items;
}

/** @param {{ lines: Line[], at: number }} reader @param {number} indent @param {number} depth */
function mapping(reader, indent, depth) {
  /** @type {Record<string, any>} */
  const object = {};
  for (let line = reader.lines[reader.at]; line && line.indent === indent; line = reader.lines[reader.at]) {
    const found = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^:]+?)\s*:(?:\s+(.*))?$/.exec(line.text);
    if (!found) {
      reader.at++;
      continue;
    }
    const key = String(scalar(found[1]));
    const rest = found[2] ?? '';
    if (rest && !/^[|>][+-]?\d*$/.test(rest)) {
      object[key] = scalarOrFlow(reader, rest, indent);
      continue;
    }
    reader.at++;
    const next = reader.lines[reader.at];
    if (rest) {
      const words = [];
      while (reader.lines[reader.at]?.indent > indent) words.push(reader.lines[reader.at++].text);
      object[key] = words.join('\n');
    } else if (next && (next.indent > indent || (next.indent === indent && next.text.startsWith('-'))))
      object[key] = block(reader, next.indent, depth + 1);
    else object[key] = null;
  }
  return object;
}

/** @param {{ lines: Line[], at: number }} reader @param {string} text @param {number} indent */
function scalarOrFlow(reader, text, indent) {
  reader.at++;
  if (!/^[[{]/.test(text)) return scalar(text);
  while (!closed(text) && reader.lines[reader.at] && reader.lines[reader.at].indent > indent) text += ` ${reader.lines[reader.at++].text}`;
  return flow({ text, at: 0 }, 0);
}

/** @param {string} text */
function closed(text) {
  const plain = text.replace(/"(?:[^"\\]|\\.)*"|'[^']*'/g, '');
  return (plain.match(/[[{]/g)?.length ?? 0) <= (plain.match(/[\]}]/g)?.length ?? 0);
}

/** @param {{ text: string, at: number }} f @param {number} depth @returns {any} */
function flow(f, depth) {
  skip(f);
  const open = f.text[f.at];
  if ((open !== '[' && open !== '{') || depth > 60) return scalar(word(f));
  f.at++;
  /** @type {any} */
  const result = open === '[' ? [] : {};
  for (skip(f); f.at < f.text.length && !/[\]}]/.test(f.text[f.at]); skip(f)) {
    const before = f.at;
    const value = flow(f, depth + 1);
    skip(f);
    if (open === '{') {
      if (f.text[f.at] === ':') {
        f.at++;
        result[String(value)] = flow(f, depth + 1);
      } else result[String(value)] = null;
    } else result.push(value);
    skip(f);
    if (f.text[f.at] === ',') f.at++;
    if (f.at === before) f.at++;
  }
  f.at++;
  return result;
}

/** @param {{ text: string, at: number }} f */
function skip(f) {
  while (/\s/.test(f.text[f.at] ?? '')) f.at++;
}

/** @param {{ text: string, at: number }} f */
function word(f) {
  const rest = f.text.slice(f.at);
  const found = /^(?:"(?:[^"\\]|\\.)*"|'[^']*'|(?:[^,:\]}]|:(?!\s|$))*)/.exec(rest)?.[0] ?? '';
  f.at += found.length;
  return found.trim();
}

/** @param {string} text @returns {any} */
function scalar(text) {
  if (text.startsWith('"')) {
    try {
      return JSON.parse(text);
    } catch {
      return text.slice(1, -1);
    }
  }
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  if (text === 'true' || text === 'false') return text === 'true';
  if (text === 'null' || text === '~' || text === '') return null;
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
