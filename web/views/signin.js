// Sign-in with a token, which stays in this tab's session storage and is never in the address.
import { fill, h, setTitle } from '../lib/dom.js';
import { ApiError, api } from '../lib/api.js';
import { setToken } from '../lib/session.js';
import { commandLine } from '../ui/bits.js';

class SignIn extends HTMLElement {
  connectedCallback() {
    setTitle('Sign in');
    const problem = h('div', { role: 'alert' });
    const field = h('textarea', {
      id: 'token',
      rows: '5',
      class: 'mono',
      autocomplete: 'off',
      spellcheck: 'false',
      required: true,
      placeholder: 'eyJhbGciOi…',
    });
    const form = h(
      'form',
      { class: 'panel signin' },
      h('h1', null, 'Sign in'),
      h(
        'p',
        { class: 'muted' },
        'This server asks for a token. It is kept for this tab only, and is gone when you sign out or close the tab.',
      ),
      h('label', { for: 'token' }, 'Token'),
      field,
      problem,
      h('div', { class: 'buttons' }, h('button', { class: 'button primary', type: 'submit' }, 'Sign in')),
      h('h2', null, 'No token?'),
      h('p', { class: 'muted' }, 'Your operator issues them. For development, the command line makes one:'),
      commandLine('windlass token --scope workflows:read,workflows:execute'),
    );
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const token = field.value.trim().replace(/^Bearer\s+/i, '');
      fill(problem);
      try {
        await api('GET', '/api/v1/limits', { headers: { Authorization: `Bearer ${token}` } });
        setToken(token);
      } catch (error) {
        if (error instanceof ApiError && error.status === 403) return setToken(token);
        fill(problem, h('p', { class: 'notice bad' }, error instanceof Error ? error.message : String(error)));
      }
    });
    fill(this, form);
    field.focus();
  }
}
customElements.define('w-signin', SignIn);
