import type { Restart } from './types.js';

export interface ResumeNotice {
  channel: string;
  resumed: boolean;
  by: 'messages' | 'history' | 'snapshot' | 'nothing';
  reason?: string;
  token?: string;
}

/** Reasons of a channel that misses nothing. */
const SETTLED = ['new', 'already_subscribed'];

/** A subscribed channel and its place in it, from which it resumes after a cut. */
export class Channel {
  /** The last message as `EPOCH:NUMBER`; null if the next subscription begins with the state. */
  token: string | null = null;
  readonly isPrivate: boolean;
  #epoch = '';
  /** Messages of a private channel that wait for the token which completes them. */
  #held: unknown[] = [];

  constructor(
    readonly name: string,
    // The type of the data depends on the channel; callers know it.
    readonly onData: (data: any) => void,
    readonly onRestart: (restart: Restart) => void,
  ) {
    this.isPrivate = name.startsWith('user.') || name.startsWith('drop_copy.');
  }

  receive(data: unknown, token: string | undefined): void {
    if (!this.isPrivate) {
      const number = lastNumber(data);
      if (this.#epoch && number !== undefined) this.token = `${this.#epoch}:${number}`;
      this.onData(data);
      return;
    }
    this.#held.push(data);
    // Messages without a token belong to the next one with a token. After a cut all of them return.
    if (token === undefined && this.token !== null) return;
    if (token !== undefined) this.token = token;
    this.#release();
  }

  /** Takes the notice that follows the missed messages. */
  resume(notice: ResumeNotice): void {
    this.#release();
    if (notice.token) {
      this.token = notice.token;
      this.#epoch = notice.token.split(':')[0] ?? '';
    }
    const { channel, by, reason = '' } = notice;
    if (by !== 'messages' && !SETTLED.includes(reason)) this.onRestart({ channel, by, reason });
  }

  /** Forgets the messages that the venue will repeat. */
  cut(): void {
    this.#held = [];
  }

  #release(): void {
    const held = this.#held;
    this.#held = [];
    for (const data of held) this.onData(data);
  }
}

/** The number by which books and trades resume. */
function lastNumber(data: any): number | undefined {
  return Array.isArray(data) ? data.at(-1)?.trade_seq : data?.change_id;
}
