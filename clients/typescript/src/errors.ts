/** An error of this package: what is wrong, and what to do. */
export class PitwireError extends Error {
  constructor(
    readonly what: string,
    readonly remedy: string,
  ) {
    super(remedy ? `${what}; ${remedy}` : what);
    this.name = new.target.name;
  }
}

/** The venue cannot be reached, or the connection has ended. */
export class ConnectionFailed extends PitwireError {}

/** The call was not sent, so it had no effect. */
export class NotSent extends PitwireError {
  constructor(method: string, cause: string) {
    super(`${method} was not sent: ${cause}`, 'try again');
  }
}

/** The call was sent and its answer is missing. The venue may have executed it. */
export class Unanswered extends PitwireError {
  constructor(
    readonly method: string,
    readonly missing: string,
    remedy = 'it may have been executed: query the state before you repeat it',
  ) {
    super(`${method} has no answer: ${missing}`, remedy);
  }
}

/** The answer to an order is missing. Only a query tells whether the order exists. */
export class OrderUnknown extends Unanswered {
  constructor(
    readonly label: string,
    cause: Unanswered,
  ) {
    super(cause.method, cause.missing, `the order may exist: await venue.resolve("${label}")`);
  }
}

interface ErrorObject {
  code: number;
  message?: string;
  data?: { name?: string; reason?: string; remedy?: string; retry_after_ms?: number };
}

/** The venue refused the call. It had no effect. */
export class Refused extends PitwireError {
  readonly code: number;
  /** Name of the error in the venue's list, such as `not_enough_funds`. */
  readonly errorName: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(method: string, error: ErrorObject) {
    const { name, reason, remedy, retry_after_ms } = error.data ?? {};
    const text = [error.message, reason].filter(Boolean).join(': ');
    super(`${method} was refused with ${error.code} ${text}`, remedy ?? '');
    this.code = error.code;
    this.errorName = name ?? error.message;
    this.retryAfterMs = retry_after_ms;
  }
}
