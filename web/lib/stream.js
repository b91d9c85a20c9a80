// Server-sent events over fetch, since EventSource cannot send a token. Reconnects with
// Last-Event-ID, so that nothing is missed.
import { ApiError, onReturn, request } from './api.js';

/**
 * @typedef {object} Listener
 * @property {(event: any) => void} event
 * @property {(state: 'live' | 'ended' | 'lost' | 'gone') => void} state
 */

/**
 * Follows a run's events after `position` until `stop()` is called.
 * @param {string} path @param {number} position @param {Listener} listener
 */
export function follow(path, position, listener) {
  const abort = new AbortController();
  let last = position;
  let wait = 300;
  /** @type {(() => void) | null} */
  let wake = null;
  const off = onReturn(() => wake?.());

  async function loop() {
    while (!abort.signal.aborted) {
      try {
        const answer = await request('GET', path, {
          accept: 'text/event-stream',
          headers: { 'Last-Event-ID': String(last) },
          signal: abort.signal,
        });
        listener.state('live');
        wait = 300;
        if (await read(answer)) {
          listener.state('ended');
          return;
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error instanceof ApiError && (error.status === 404 || error.status === 401)) {
          listener.state(error.status === 404 ? 'gone' : 'lost');
          return;
        }
      }
      if (abort.signal.aborted) return;
      listener.state('lost');
      await new Promise((/** @type {(value?: any) => void} */ done) => {
        wake = done;
        setTimeout(done, wait);
      });
      wait = Math.min(wait * 2, 5000);
    }
  }

  /** Whether the run's last event came. @param {Response} answer */
  async function read(answer) {
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) return false;
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) if (take(block)) return true;
    }
  }

  /** @param {string} block */
  function take(block) {
    let kind = '';
    let data = '';
    for (const line of block.split('\n')) {
      if (line.startsWith('event: ')) kind = line.slice(7);
      else if (line.startsWith('id: ')) last = Number(line.slice(4));
      else if (line.startsWith('data: ')) data = line.slice(6);
    }
    if (kind === 'end') return true;
    if (!data || kind === 'lagged' || kind === 'draining' || kind === 'expired') return false;
    listener.event(JSON.parse(data));
    return false;
  }

  void loop();
  return () => {
    abort.abort();
    off();
    wake?.();
  };
}
