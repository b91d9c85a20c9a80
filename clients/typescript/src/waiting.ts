/** Waiting that can be broken off, and leaves neither timers nor listeners behind. */

/** Resolves after the time, or as soon as the signal is aborted. Never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener("abort", finish);
  });
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
    } else {
      signal.addEventListener("abort", () => resolve(), { once: true });
    }
  });
}

/**
 * Runs work with a signal that is aborted after the time or with the other signal.
 * (`AbortSignal.any` would do, but is missing from the first releases of Node 20.)
 */
export async function within<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => controller.abort(signal?.reason);
  const timer = setTimeout(
    () => controller.abort(new Error(`no answer within ${ms} ms`)),
    Math.min(ms, 2 ** 31 - 1),
  );
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) {
    stop();
  }
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}
