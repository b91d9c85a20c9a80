/** Delays between repeated requests: exponential, with jitter, bounded. */

export class Backoff {
  #count = 0;

  constructor(
    private readonly baseMs = 100,
    private readonly mostMs = 5000,
    private readonly random: () => number = Math.random,
  ) {}

  /**
   * The next delay; `atLeastMs` is what the server asked for, if it did. Each is between half of
   * its bound and the whole, which keeps many workers from coming back at the same moment.
   */
  next(atLeastMs = 0): number {
    const bound = Math.min(this.mostMs, this.baseMs * 2 ** Math.min(this.#count, 32));
    this.#count += 1;
    return Math.max(bound * (0.5 + this.random() / 2), atLeastMs);
  }

  /** Begins again: a request succeeded. */
  reset(): void {
    this.#count = 0;
  }
}
