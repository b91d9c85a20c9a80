// A text area with colours behind it, numbers beside it, problems at their lines and completion.
import { eachFrame, fill, h } from '../lib/dom.js';
import { highlight } from './highlight.js';
import { proposals } from './complete.js';

export class CodeElement extends HTMLElement {
  constructor() {
    super();
    this.className = 'code';
    this.area = h('textarea', {
      spellcheck: 'false',
      autocapitalize: 'off',
      autocomplete: 'off',
      wrap: 'off',
      'aria-label': 'Definition',
      'aria-describedby': 'problems',
    });
    this.back = h('pre', { 'aria-hidden': 'true' });
    this.gutter = h('div', { class: 'gutter', 'aria-hidden': 'true' });
    this.list = h('ul', { class: 'complete', role: 'listbox', 'aria-label': 'Completions', hidden: true });
    /** @type {any[]} */
    this.problems = [];
    /** @type {any} */
    this.draft = null;
    /** @type {import('./complete.js').Proposal[]} */
    this.found = [];
    this.at = 0;
    this.word = '';
    this.draw = eachFrame(() => this.render());
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    this.area.value = text;
    this.draw();
  }

  /** @returns {'json' | 'yaml'} */
  get language() {
    return /^\s*[{[]/.test(this.area.value) ? 'json' : 'yaml';
  }

  connectedCallback() {
    fill(this, this.gutter, h('div', { class: 'code-body' }, this.back, this.area, this.list));
    this.area.addEventListener('input', () => {
      this.draw();
      this.dispatchEvent(new Event('edit'));
      void this.propose(false);
    });
    this.area.addEventListener('scroll', () => this.sync(), { passive: true });
    this.area.addEventListener('blur', () => setTimeout(() => this.close(), 150));
    this.area.addEventListener('keydown', (event) => this.key(event));
    this.draw();
  }

  /** @param {any[]} problems */
  mark(problems) {
    this.problems = problems;
    this.draw();
  }

  render() {
    fill(this.back, highlight(this.area.value, this.language, this.problems));
    const worst = new Map();
    for (const problem of this.problems)
      if (worst.get(problem.line) !== 'bad') worst.set(problem.line, problem.severity === 'error' ? 'bad' : 'wait');
    const count = Math.min(this.area.value.split('\n').length, 5000);
    fill(
      this.gutter,
      Array.from({ length: count }, (_, i) => h('div', { class: worst.get(i + 1) ?? '' }, String(i + 1))),
    );
    this.sync();
  }

  sync() {
    this.back.scrollTop = this.area.scrollTop;
    this.back.scrollLeft = this.area.scrollLeft;
    this.gutter.scrollTop = this.area.scrollTop;
  }

  /** @param {number} line @param {number} column */
  go(line, column) {
    const lines = this.area.value.split('\n');
    const at = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.area.scrollTop = Math.max(0, (line - 5) * 20);
  }

  /** @param {boolean} asked */
  async propose(asked) {
    const at = this.area.selectionStart;
    const answer = await proposals(this.area.value, at, this.language, this.draft).catch(() => null);
    if (!answer || at !== this.area.selectionStart || (!asked && answer.word.length < 1)) return this.close();
    this.found = answer.proposals;
    this.word = answer.word;
    this.at = 0;
    if (!this.found.length) return this.close();
    this.place(at);
    this.list.hidden = false;
    this.drawList();
  }

  /** @param {number} at */
  place(at) {
    const before = this.area.value.slice(0, at).split('\n');
    const column = before.at(-1)?.length ?? 0;
    this.list.style.setProperty('top', `${Math.min(before.length * 20 + 10 - this.area.scrollTop, this.area.clientHeight - 120)}px`);
    this.list.style.setProperty(
      'left',
      `${Math.max(4, Math.min(column * 7.8 + 10 - this.area.scrollLeft, this.area.clientWidth - 240))}px`,
    );
  }

  drawList() {
    fill(
      this.list,
      this.found.map((item, i) =>
        h(
          'li',
          {
            role: 'option',
            'aria-selected': String(i === this.at),
            on: {
              mousedown: (/** @type {Event} */ event) => {
                event.preventDefault();
                this.at = i;
                this.take();
              },
            },
          },
          item.label,
          item.help ? h('small', null, item.help.slice(0, 90)) : null,
        ),
      ),
    );
  }

  take() {
    const item = this.found[this.at];
    if (!item) return;
    const at = this.area.selectionStart;
    const tail = this.area.value[at] === '"' && item.insert.includes('"') ? 1 : 0;
    this.area.setRangeText(item.insert, at - this.word.length, at + tail, 'end');
    this.close();
    this.draw();
    this.dispatchEvent(new Event('edit'));
  }

  close() {
    this.list.hidden = true;
    this.found = [];
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const open = !this.list.hidden;
    if (event.key === ' ' && event.ctrlKey) void this.propose(true);
    else if (open && event.key === 'ArrowDown') this.at = Math.min(this.at + 1, this.found.length - 1);
    else if (open && event.key === 'ArrowUp') this.at = Math.max(this.at - 1, 0);
    else if (open && (event.key === 'Enter' || event.key === 'Tab')) this.take();
    else if (open && event.key === 'Escape') this.close();
    else if (event.key === 'Enter' && !event.shiftKey && !event.ctrlKey) this.newLine();
    else return;
    event.preventDefault();
    if (open && !this.list.hidden) this.drawList();
  }

  /** A new line begins where the last one did. */
  newLine() {
    const at = this.area.selectionStart;
    const line = this.area.value.slice(0, at).split('\n').at(-1) ?? '';
    const indent = /^\s*/.exec(line)?.[0] ?? '';
    const deeper = /[{[:]\s*$/.test(line) ? '  ' : '';
    this.area.setRangeText(`\n${indent}${deeper}`, at, this.area.selectionEnd, 'end');
    this.draw();
    this.dispatchEvent(new Event('edit'));
  }
}
customElements.define('w-code', CodeElement);
