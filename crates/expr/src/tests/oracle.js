// Reads one JSON object a line, { source, names, values }, evaluates the source and writes one
// JSON object a line: { ok: canonical text } or { error: message }.
const show = (value, depth = 0) => {
  if (depth > 300) throw new Error('too deep');
  if (value === undefined) return 'undefined';
  if (value === null) return 'null';
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return '[' + Array.from(value, (item) => show(item, depth + 1)).join(',') + ']';
  if (typeof value === 'object') {
    return '{' + Object.keys(value).map((key) => JSON.stringify(key) + ':' + show(value[key], depth + 1)).join(',') + '}';
  }
  return 'a ' + typeof value;
};

const lines = require('fs').readFileSync(0, 'utf8').split('\n');
const answers = [];
for (const line of lines) {
  if (line === '') continue;
  const { source, names, values } = JSON.parse(line);
  let answer;
  try {
    const run = new Function(...names, '"use strict"; return (' + source + '\n);');
    answer = { ok: show(run(...values)) };
  } catch (error) {
    answer = { error: JSON.stringify(String(error)) };
  }
  answers.push(JSON.stringify(answer));
}
process.stdout.write(answers.join('\n') + '\n');
