// A simulation of the draft: many runs in virtual time with mocked actions, on the server. It
// says how runs can end; an ending opens the story of one such run.
import { fill, h } from '../lib/dom.js';
import { api } from '../lib/api.js';
import { failure } from '../lib/view.js';
import { badge } from '../lib/status.js';
import { duration, number, plural, shell } from '../lib/text.js';
import { button, commandLine } from '../ui/bits.js';
import { openDialog } from '../ui/dialog.js';
import { jsonField, schemaForm } from '../ui/schema-form.js';

const RUNS = 200;
const SHOWN = 12;

/** @typedef {{ id: string, schema: any, text: string, type: string, file: string }} Draft */

/** @param {Draft} draft */
export function openSimulation(draft) {
  const commands = h('div', { class: 'commands' });
  const result = h('div', { class: 'stack', id: 'simulated', 'aria-live': 'polite' });
  const changed = () => {
    const { query, problem } = read();
    go.disabled = Boolean(problem);
    fill(commands, problem ? h('p', { class: 'bad' }, problem) : commandLine(commandWords(draft.file, query), 'CLI'));
  };
  const trigger = draft.schema
    ? schemaForm(draft.schema, undefined, changed, 'Trigger')
    : jsonField('Trigger', {}, changed);
  const fails = words('fail', 'Failures', 'charge=10%:DECLINED *=1%', changed);
  const signals = words('signal', 'Signals that are sent', 'approved={"by":"ada"}', changed);
  const crashes = h('input', { type: 'checkbox', checked: true, on: { change: changed } });
  const go = button(`Simulate ${RUNS} runs`, () => void run(null), 'primary');
  const form = h(
    'form',
    { class: 'act', novalidate: true },
    h('p', { class: 'muted' }, 'Runs in virtual time with mocked actions. Nothing is stored, and nothing outside is called.'),
    trigger.element,
    fails.element,
    signals.element,
    h('label', null, crashes, 'The process dies now and then'),
    h('div', { class: 'buttons' }, go),
    result,
    h('details', null, h('summary', null, 'The same as a command'), commands),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (!go.disabled) void run(null);
  });
  openDialog(`Simulate ${draft.id}`, form, undefined, 'wide');
  changed();

  /** @returns {{ query: URLSearchParams, problem: string | null }} */
  function read() {
    const query = new URLSearchParams();
    try {
      query.set('trigger', JSON.stringify(trigger.read() ?? {}));
    } catch (error) {
      return { query, problem: error instanceof Error ? error.message : String(error) };
    }
    for (const word of fails.read()) query.append('fail', word);
    for (const word of signals.read()) query.append('signal', word);
    if (!crashes.checked) query.set('crashes', 'false');
    return { query, problem: null };
  }

  /** @param {number | null} seed */
  async function run(seed) {
    const { query, problem } = read();
    if (problem) return;
    if (seed === null) query.set('seeds', String(RUNS));
    else query.set('seed', String(seed));
    go.disabled = true;
    try {
      const answer = await api('POST', `/api/v1/workflows/simulate?${query}`, { text: draft.text, type: draft.type });
      if (seed === null) fill(result, report(answer, (one) => void run(one)));
      else fill(result, story(answer, seed), button('All endings', () => void run(null)));
    } catch (error) {
      fill(result, failure(error));
    }
    go.disabled = false;
  }
}

/** A field for words apart by spaces; JSON may have some too. @param {string} id @param {string} title @param {string} example @param {() => void} changed */
function words(id, title, example, changed) {
  const input = h('input', { type: 'text', id: `simulate-${id}`, class: 'mono', placeholder: example, autocomplete: 'off', on: { input: changed } });
  return {
    element: h('div', { class: 'field' }, h('label', { for: `simulate-${id}` }, title), input),
    read: () => input.value.match(/[^\s={]+(=(\{.*?\}(?=\s|$)|"[^"]*"|\S*))?/g) ?? [],
  };
}

/** @param {string} file @param {URLSearchParams} query */
function commandWords(file, query) {
  const words = ['windlass simulate', shell(file)];
  for (const [key, value] of query) {
    if (key === 'crashes') words.push('--no-crashes');
    else words.push(`--${key}`, shell(value));
  }
  return words.join(' ');
}

/** @param {any} answer @param {(seed: number) => void} open */
function report(answer, open) {
  const times = answer.durationMs;
  return [
    h(
      'p',
      null,
      h('strong', null, plural(answer.runs, 'simulated run')),
      answer.crashes ? `, ${plural(answer.crashes, 'crash', 'crashes')}` : '',
      times ? `; ${duration(times.median)} in the middle, ${duration(times.p95)} at p95, in virtual time` : '',
    ),
    h(
      'div',
      { class: 'table-wrap', tabindex: '0', role: 'region', 'aria-label': 'Endings' },
      h(
        'table',
        null,
        h('thead', null, h('tr', null, ['Share', 'Ending', 'One of them'].map((name) => h('th', null, name)))),
        h('tbody', null, answer.endings.slice(0, SHOWN).map((/** @type {any} */ ending) => endingRow(ending, open))),
      ),
    ),
    answer.problems.map((/** @type {string} */ problem) => h('p', { class: 'wait' }, problem)),
    answer.neverRan.length
      ? h('p', null, h('strong', null, 'Never ran: '), h('code', null, named(answer.neverRan)))
      : h('p', { class: 'good' }, 'Every node ran in some run.'),
    answer.failures.slice(0, SHOWN).map((/** @type {any} */ failed) =>
      h('p', null, h('code', null, failed.node), ' ', h('span', { class: 'bad' }, failed.code), ` ${failed.message}, ${number(failed.attempts)}×`),
    ),
  ];
}

/** @param {any} ending @param {(seed: number) => void} open */
function endingRow(ending, open) {
  const nodes = ending.nodes ?? ending.signals ?? [];
  return h(
    'tr',
    null,
    h('td', { class: 'mono' }, `${(100 * ending.share).toFixed(1)} %`),
    h(
      'td',
      null,
      badge(ending.ending),
      ' ',
      [ending.code, nodes.length ? named(nodes) : '', ending.handled?.length ? `after ${named(ending.handled)} failed` : '']
        .filter(Boolean)
        .join(', '),
      ending.compensation ? ` (undone: ${ending.compensation})` : '',
    ),
    h('td', null, button(`Seed ${ending.seed}`, () => open(ending.seed), 'small')),
  );
}

/** @param {string[]} names */
function named(names) {
  const more = names.length - SHOWN;
  return names.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** @param {any} answer @param {number} seed */
function story(answer, seed) {
  return [
    h('p', null, h('strong', null, `Seed ${seed}`), ' ', badge(answer.endings[0]?.ending ?? 'Unknown')),
    h(
      'ol',
      { class: 'story' },
      (answer.events ?? []).slice(0, 500).map((/** @type {any} */ event) =>
        h('li', null, h('span', { class: 'muted mono' }, duration(event.afterMs)), ' ', event.what),
      ),
    ),
  ];
}
