/** HTTP as the client and the worker speak it: addresses, headers, errors. */

import { ApiError } from "./errors.js";
import { traceHeaders } from "./telemetry.js";
import { within } from "./waiting.js";

/** A token, or a function that gives a fresh one. */
export type Token = string | (() => string | Promise<string>);

export interface Connection {
  /** The server; `WINDLASS_SERVER`, then `http://127.0.0.1:7400` by default. */
  readonly url?: string;
  /** `WINDLASS_TOKEN` by default. */
  readonly token?: Token;
}

/** Statuses after which the same request may succeed. */
export const PASSING: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Sends requests to one server. */
export class Wire {
  readonly url: string;
  readonly #token: Token | undefined;

  constructor(connection: Connection) {
    this.url = serverUrl(connection.url ?? process.env["WINDLASS_SERVER"]);
    this.#token = connection.token ?? (process.env["WINDLASS_TOKEN"] || undefined);
  }

  /** The answer as JSON; throws `ApiError` if the server refused, other errors without answer. */
  async json<T>(sent: Sent): Promise<T> {
    return within(sent.timeoutMs, sent.signal, async (signal) => {
      const response = await this.fetch(sent, signal);
      const text = await response.text();
      if (!response.ok) {
        throw errorOf(response, text);
      }
      try {
        return JSON.parse(text) as T;
      } catch {
        // A proxy's page, or half of an answer.
        const message = "the answer is not JSON";
        throw new ApiError(response.status, { code: "ANSWER_INVALID", message });
      }
    });
  }

  async fetch(sent: Sent, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Accept: "application/json" };
    // A token that is a function is asked each time: it may expire.
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    if (token) {
      headers["Authorization"] = `Bearer ${token}`;
    }
    if (sent.body !== undefined) {
      headers["Content-Type"] = "application/json";
    }
    return fetch(this.url + sent.path, {
      method: sent.method,
      headers: { ...headers, ...traceHeaders(), ...sent.headers },
      signal,
      ...(sent.body === undefined ? {} : { body: sent.body }),
    });
  }
}

/** The error that an answer tells of, of the server or of a proxy before it. */
export function errorOf(response: Response, text: string): ApiError {
  let error: Record<string, unknown> = {};
  try {
    const body = JSON.parse(text) as { error?: unknown } | null;
    if (typeof body?.error === "object" && body.error !== null) {
      error = body.error as Record<string, unknown>;
    }
  } catch {
    // Not the server's own.
  }
  const after = retryAfterMs(response.headers.get("retry-after"));
  return new ApiError(response.status, { message: response.statusText, ...error }, after);
}

/** `Retry-After`: seconds or a date (RFC 9110, section 10.2.3). */
export function retryAfterMs(value: string | null): number | undefined {
  if (value === null) {
    return undefined;
  }
  if (/^\d+$/.test(value)) {
    return Number(value) * 1000;
  }
  const moment = Date.parse(value);
  return Number.isNaN(moment) ? undefined : Math.max(0, moment - Date.now());
}

function serverUrl(given: string | undefined): string {
  const text = given || "http://127.0.0.1:7400";
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) {
    throw new RangeError(
      `${JSON.stringify(text)} is not the address of a server: write http://host:port`,
    );
  }
  return text.replace(/\/+$/, "");
}

/** What went wrong, in a few words: the cause of a failed `fetch` says more than it does. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const cause = error.cause instanceof Error ? error.cause : undefined;
  const code = cause && "code" in cause ? ` (${String(cause.code)})` : "";
  return cause ? `${error.message}: ${cause.message}${code}` : error.message;
}
