/** The worker: a registry of actions, and the session that serves them. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import type { ActionFunction, ActionOptions } from "./action.js";
import { Action } from "./action.js";
import type { Logger } from "./logger.js";
import { Session } from "./session.js";
import type { Connection } from "./wire.js";
import { Wire } from "./wire.js";

/** What the server accepts from one tenant; more would be refused at the first poll. */
const MOST_ACTIONS = 1000;

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export interface WorkerOptions extends Connection {
  /** How many attempts run at once; 10 by default. */
  readonly concurrency?: number;
  /** A node that `requires` labels goes only to workers that have them all. */
  readonly labels?: readonly string[];
  /** Unique per process; by default the host's name, the process id and a random part. */
  readonly name?: string;
  /** How long a stopping worker lets attempts run on; until they end by default. */
  readonly stopTimeoutMs?: number;
  /** `console` by default. */
  readonly logger?: Logger;
}

/** Serves actions to a Windlass server. */
export class Worker {
  /** The name by which the server knows this process. */
  readonly name: string;
  readonly #actions = new Map<string, Action>();
  readonly #wire: Wire;
  readonly #options: WorkerOptions;
  readonly #logger: Logger;
  #session: Session | undefined;

  constructor(options: WorkerOptions = {}) {
    const concurrency = options.concurrency ?? 10;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`concurrency is ${concurrency}: a worker runs at least 1 attempt`);
    }
    this.#options = { ...options, concurrency };
    this.#wire = new Wire(options);
    this.#logger = options.logger ?? console;
    const random = randomBytes(4).toString("hex");
    this.name = options.name ?? `${hostname().slice(0, 64)}-${process.pid}-${random}`;
  }

  /** What is registered, by action type; the test kit looks here. */
  get actions(): ReadonlyMap<string, Action> {
    return this.#actions;
  }

  get logger(): Logger {
    return this.#logger;
  }

  /**
   * Registers a function as an action type. The shape of its parameters is declared to the
   * server, which checks every node's parameters against it. Returns the function.
   */
  action<T>(
    actionType: string,
    options: ActionOptions<T>,
    run: ActionFunction<T>,
  ): ActionFunction<T>;
  action(actionType: string, run: ActionFunction<unknown>): ActionFunction<unknown>;
  action(
    actionType: string,
    second: ActionOptions<unknown> | ActionFunction<unknown>,
    third?: ActionFunction<never>,
  ): ActionFunction<never> {
    const options = typeof second === "function" ? {} : second;
    const run = typeof second === "function" ? second : third;
    if (!run) {
      throw new TypeError(`the action ${actionType} has no function`);
    }
    if (this.#actions.has(actionType)) {
      throw new RangeError(`the action ${JSON.stringify(actionType)} is registered twice`);
    }
    if (this.#actions.size >= MOST_ACTIONS) {
      throw new RangeError(`a worker declares at most ${MOST_ACTIONS} action types`);
    }
    this.#actions.set(actionType, new Action(actionType, options, run as ActionFunction<unknown>));
    return run;
  }

  /**
   * Serves until SIGTERM, SIGINT or `stop`; then finishes what runs and resolves. A second signal
   * does not wait: attempts are asked to stop, and other workers get them. `signals: false`
   * leaves signals to the program.
   */
  async run(options: { readonly signals?: boolean } = {}): Promise<void> {
    if (this.#actions.size === 0) {
      throw new RangeError("the worker has no actions: register one with worker.action(…)");
    }
    if (this.#session) {
      throw new Error("the worker runs already");
    }
    const { labels = [], concurrency = 10, stopTimeoutMs } = this.#options;
    const chosen = { name: this.name, labels, concurrency, stopTimeoutMs };
    const session = new Session(this.#wire, chosen, this.#actions, this.#logger);
    this.#session = session;
    const handle = (signal: string): void => this.#handle(session, signal);
    const signals = options.signals === false ? [] : SIGNALS;
    signals.forEach((signal) => process.on(signal, handle));
    const names = [...this.#actions.keys()].join(", ");
    this.#logger.info(`worker ${this.name} serves ${names} at ${this.#wire.url}`);
    try {
      await session.run();
    } finally {
      signals.forEach((signal) => process.off(signal, handle));
      this.#session = undefined;
    }
    this.#logger.info(`worker ${this.name} has stopped`);
  }

  /** Polls no more, finishes what runs, then `run` resolves. */
  stop(): void {
    this.#session?.stop();
  }

  /** Asks what runs to stop and gives its tasks up at once. */
  halt(): void {
    this.#session?.halt();
  }

  #handle(session: Session, signal: string): void {
    if (session.isStopping) {
      this.#logger.warn(`${signal} again: what runs is given up`);
      session.halt();
    } else {
      this.#logger.info(`${signal}: what runs is finished, nothing new is taken`);
      session.stop();
    }
  }
}
