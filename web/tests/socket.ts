import { vi } from 'vitest';
import type { Socket } from '../src/lib/connection';

export interface Request {
  id: number;
  method: string;
  params: { channels?: string[]; [name: string]: unknown };
}

/** A socket that a test controls. */
export class FakeSocket implements Socket {
  onopen: Socket['onopen'] = null;
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  sent: Request[] = [];
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Request);
  }
  close(): void {
    this.closed = true;
  }
  open(): void {
    this.onopen?.call(this as never, {} as Event);
  }
  fail(): void {
    this.onclose?.call(this as never, {} as CloseEvent);
  }
  async say(frame: object): Promise<void> {
    this.onmessage?.call(this as never, { data: JSON.stringify(frame) } as MessageEvent);
    await vi.advanceTimersByTimeAsync(0);
  }
  /** Answers the oldest open request of a method. */
  async answer(method: string, result: unknown = {}): Promise<void> {
    const index = this.sent.findIndex((request) => request.method === method);
    const [request] = this.sent.splice(index, 1);
    await this.say({ id: request?.id, result });
  }
  /** Refuses the oldest open request of a method. */
  async refuse(method: string, error: object): Promise<void> {
    const index = this.sent.findIndex((request) => request.method === method);
    const [request] = this.sent.splice(index, 1);
    await this.say({ id: request?.id, error });
  }
  get methods(): string[] {
    return this.sent.map((request) => request.method);
  }
}
