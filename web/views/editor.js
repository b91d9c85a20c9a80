// The editor: a definition as JSON or YAML, problems at their lines while it is written, its
// graph beside it, and what publishing does to live runs before the button.
import { debounce, fill, h, setTitle } from '../lib/dom.js';
import { ApiError, api, get, workflowPath } from '../lib/api.js';
import { View, failure } from '../lib/view.js';
import { can, getToken } from '../lib/session.js';
import { navigate, setParams, workflowHref } from '../lib/router.js';
import { button, cli, commandLine, curlFile, linkButton } from '../ui/bits.js';
import { shell } from '../lib/text.js';
import { openDialog } from '../ui/dialog.js';
import { CodeElement } from '../editor/code.js';
import { planTable } from '../editor/plan.js';
import { openSimulation } from '../editor/simulate.js';
import { readYaml } from '../editor/yaml.js';
import { GraphElement } from '../graph/view.js';
import { Scene } from '../graph/scene.js';
import { layoutDraft } from '../graph/draft.js';

const DRAFT = 'windlass.draft';
const EXAMPLE = `id: hello
displayName: Hello
triggerSchema:
  type: object
  properties:
    name: { type: string, default: world }
nodes:
  - id: greet
    actionType: core.echo
    parameters:
      text: "Hello, {{ trigger.name }}"
  - id: done
    dependsOn: [greet]
    actionType: core.echo
    parameters: { said: "{{ context.data['greet'].text }}" }
`;

/** Where the draft of the version in the address is kept. */
function draftKey() {
  const params = new URLSearchParams(location.search);
  return `${DRAFT}.${params.get('workflow') ?? ''}@${params.get('version') ?? ''}`;
}

class Editor extends View {
  constructor() {
    super();
    this.code = new CodeElement();
    this.graph = new GraphElement();
    this.problems = h('div', { class: 'problems', id: 'problems', role: 'status', 'aria-live': 'polite' });
    this.publishButton = button('Publish', () => this.plan(), 'primary');
    this.kept = h('span', { class: 'wait', role: 'status' });
    /** What the editor begins with where this tab has no draft. */
    this.origin = '';
    /** @type {Set<string>} */
    this.open = new Set();
    this.asked = 0;
    this.check = debounce(getToken() ? 1200 : 250, () => void this.validate());
    /** @type {any} */
    this.draft = null;
  }

  /** @param {import('../lib/router.js').Route} now */
  keeps(now) {
    return now.name === 'editor';
  }

  /** @param {import('../lib/router.js').Route} now */
  async start(now) {
    setTitle('Editor');
    fill(
      this,
      h(
        'div',
        { class: 'editor-page' },
        h(
          'div',
          { class: 'page-head' },
          h('h1', null, now.params.get('workflow') ?? 'New workflow'),
          h('span', { class: 'muted' }, 'JSON or YAML; Ctrl+Space completes'),
          this.kept,
          h('span', { class: 'spacer' }),
          can('workflows:manage') ? button('Simulate', () => this.simulate()) : null,
          can('workflows:manage') ? this.publishButton : null,
        ),
        this.code,
        h('div', { class: 'editor-side' }, h('div', { class: 'graph-box' }, this.graph)),
        this.problems,
      ),
    );
    this.graph.addEventListener('toggle', (/** @type {any} */ event) => {
      if (!this.open.delete(event.detail)) this.open.add(event.detail);
      this.drawGraph();
    });
    // The arrow keys stay in the graph.
    for (const kind of ['point', 'open'])
      this.graph.addEventListener(kind, (/** @type {any} */ event) => event.detail && this.find(event.detail));
    this.code.addEventListener('edit', () => {
      this.keep();
      this.changed();
    });
    const id = now.params.get('workflow');
    this.origin = EXAMPLE;
    if (id) {
      const version = now.params.get('version');
      try {
        this.origin = JSON.stringify(
          await get(`${workflowPath(id)}${version ? `?version=${encodeURIComponent(version)}` : ''}`, this.abort.signal),
          null,
          2,
        );
      } catch (error) {
        fill(this.problems, failure(error));
        return;
      }
    }
    this.code.value = sessionStorage.getItem(draftKey()) ?? this.origin;
    this.drawKept();
    this.changed();
    this.ready();
  }

  /** What was edited stays in this tab, apart for each version: one must not be published in place of another. */
  keep() {
    try {
      if (this.code.value === this.origin) sessionStorage.removeItem(draftKey());
      else sessionStorage.setItem(draftKey(), this.code.value);
    } catch {
      // A draft larger than the storage stays in the text area alone.
    }
    this.drawKept();
  }

  drawKept() {
    const discard = () => {
      sessionStorage.removeItem(draftKey());
      this.code.value = this.origin;
      this.drawKept();
      this.changed();
    };
    const isDraft = this.code.value !== this.origin;
    if (this.kept.childElementCount > 0 !== isDraft) fill(this.kept, isDraft ? ['Not published. ', linkButton('Discard the draft', discard)] : null);
  }

  changed() {
    this.publishButton.disabled = true;
    this.drawGraph();
    this.check();
  }

  drawGraph() {
    try {
      const draft = this.code.language === 'json' ? JSON.parse(this.code.value) : readYaml(this.code.value);
      this.draft = draft;
      this.code.draft = draft;
      if (Array.isArray(draft?.nodes) && draft.nodes.length) this.graph.setScene(new Scene(layoutDraft(draft, this.open)));
    } catch {
      // While a line is half written, the last graph stays.
    }
  }

  async validate() {
    const mine = ++this.asked;
    if (!can('workflows:manage')) return fill(this.problems, h('span', { class: 'muted' }, 'Your token may not validate or publish.'));
    try {
      const answer = await api('POST', '/api/v1/workflows/validate', {
        text: this.code.value,
        type: this.type(),
        signal: this.abort.signal,
      });
      if (mine !== this.asked) return;
      this.show(answer.problems, answer.valid);
    } catch (error) {
      if (mine !== this.asked || this.abort.signal.aborted) return;
      if (error instanceof ApiError && error.details.some((detail) => detail.line)) this.show(error.details, false);
      else fill(this.problems, failure(error));
    }
  }

  type() {
    return this.code.language === 'json' ? 'application/json' : 'application/yaml';
  }

  /** @param {any[]} problems @param {boolean} valid */
  show(problems, valid) {
    this.code.mark(problems);
    this.publishButton.disabled = !valid;
    if (!problems.length) return fill(this.problems, h('span', { class: 'good' }, '✓ No problems'));
    fill(
      this.problems,
      problems
        .slice(0, 100)
        .map((problem) =>
          h(
            'button',
            { type: 'button', on: { click: () => this.code.go(problem.line ?? 1, problem.column ?? 1) } },
            h('span', { class: problem.severity === 'warning' ? 'wait' : 'bad' }, `${problem.line ?? '–'}:${problem.column ?? '–'} `),
            h('code', null, problem.code ?? ''),
            ' ',
            problem.message,
            problem.suggestion ? h('span', { class: 'muted' }, ` (${problem.suggestion})`) : null,
          ),
        ),
    );
  }

  /** Goes to where a node is written. @param {string} path */
  find(path) {
    const id = path.split('/').at(-1) ?? path;
    const lines = this.code.value.split('\n');
    const line = lines.findIndex(
      (text) =>
        new RegExp(`["']?id["']?\\s*:\\s*["']?${id.replace(/[^\w-]/g, '')}["']?\\s*[,}]?\\s*$`).test(text.trim()) ||
        text.includes(`"id": "${id}"`) ||
        text.includes(`{ id: ${id},`),
    );
    if (line >= 0) this.code.go(line + 1, 1);
  }

  simulate() {
    const id = String(this.draft?.id ?? 'workflow');
    openSimulation({
      id,
      schema: this.draft?.triggerSchema,
      text: this.code.value,
      type: this.type(),
      file: `${id}.${this.code.language}`,
    });
  }

  /** What publishing would do, before it does it. */
  async plan() {
    const result = h('div', { class: 'sheet' });
    const dialog = openDialog('Publish', result, undefined, 'wide');
    const place = h('div', { class: 'stack' });
    result.append(place);
    try {
      const id = String(this.draft?.id ?? '');
      const plan = await api('POST', `${workflowPath(id)}/plan`, { text: this.code.value, type: this.type() });
      const reply = h('div');
      const file = `${id}.${this.code.language}`;
      fill(
        place,
        h(
          'p',
          null,
          plan.created ? `Becomes version ${plan.version} of ` : `Is version ${plan.version} already: nothing would change in `,
          h('code', null, plan.workflowId),
          '.',
        ),
        plan.runs.length ? planTable(plan.runs) : h('p', { class: 'muted' }, 'No live runs are affected.'),
        commandLine(cli(`publish ${shell(file)}`), 'CLI'),
        commandLine(curlFile('POST', '/api/v1/workflows', file, this.type()), 'curl'),
        reply,
        h(
          'div',
          { class: 'buttons' },
          button(
            `Publish version ${plan.version}`,
            async () => {
              try {
                const done = await api('POST', '/api/v1/workflows', { text: this.code.value, type: this.type() });
                sessionStorage.removeItem(draftKey());
                dialog.close();
                navigate(`${workflowHref(done.workflowId)}?tab=start`);
              } catch (error) {
                fill(reply, failure(error));
              }
            },
            'primary',
          ),
        ),
      );
    } catch (error) {
      fill(place, failure(error));
      if (error instanceof ApiError && error.details.length) this.show(error.details, false);
    }
  }

  /** @param {import('../lib/router.js').Route} _now */
  routed(_now) {
    setParams({}, { replace: true });
  }
}

customElements.define('w-editor', Editor);
