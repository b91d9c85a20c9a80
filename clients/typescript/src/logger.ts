/** Logging with ids. Any logger with these four methods fits, `console` and pino among them. */

export interface Logger {
  debug(message: string, ...details: unknown[]): void;
  info(message: string, ...details: unknown[]): void;
  warn(message: string, ...details: unknown[]): void;
  error(message: string, ...details: unknown[]): void;
}

/** A logger that adds the ids to every record. */
export function withIds(logger: Logger, ids: Readonly<Record<string, string | number>>): Logger {
  return {
    debug: (message, ...details) => logger.debug(message, ids, ...details),
    info: (message, ...details) => logger.info(message, ids, ...details),
    warn: (message, ...details) => logger.warn(message, ids, ...details),
    error: (message, ...details) => logger.error(message, ids, ...details),
  };
}

/** Says nothing. */
export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
