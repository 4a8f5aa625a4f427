import { explain, type Answer } from '../lib/answer';
import { bytesOf, isFinished, type FilePart, type Report, type Run } from '../lib/simulation';
import type { Member } from './member.svelte';

/** Time between two looks at the runs, in milliseconds: while one is at work, and otherwise. */
const [BUSY_INTERVAL, IDLE_INTERVAL] = [400, 4_000];
/** Time until a part of a file is asked for again. */
const PART_INTERVAL = 15;

/** The simulations of the venue, polled while their view is open. */
export class Simulations {
  runs = $state.raw<Run[]>([]);
  problem = $state.raw<Answer | null>(null);
  #member: Member;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #open = false;

  constructor(member: Member) {
    this.#member = member;
  }

  get busy(): Run | undefined {
    return this.runs.find((run) => !isFinished(run));
  }

  start(): void {
    this.#open = true;
    void this.#poll();
  }

  stop(): void {
    this.#open = false;
    clearTimeout(this.#timer);
  }

  async #poll(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#member.phase === 'in') await this.refresh();
    if (this.#open)
      this.#timer = setTimeout(() => void this.#poll(), this.busy ? BUSY_INTERVAL : IDLE_INTERVAL);
  }

  async refresh(): Promise<void> {
    try {
      this.runs = await this.#member.call<Run[]>('private/pitwire_get_simulations');
      this.problem = null;
    } catch (error) {
      this.problem = explain(error);
    }
  }

  async #command<T>(name: string, params: object): Promise<T> {
    const result = await this.#member.call<T>(`private/pitwire_${name}_simulation`, params);
    void this.#poll();
    return result;
  }

  begin(params: object): Promise<Run> {
    return this.#command('start', params);
  }

  end(run: Run): Promise<Run> {
    return this.#command('stop', { simulation_id: run.simulation_id });
  }

  remove(run: Run): Promise<unknown> {
    return this.#command('delete', { simulation_id: run.simulation_id });
  }

  export(run: Run, format: 'csv' | 'parquet'): Promise<Run> {
    return this.#command('export', { simulation_id: run.simulation_id, format });
  }

  /** Reads a file of a run, part by part. */
  async read(id: number, name: string): Promise<Blob> {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for (let offset: number | null = 0; offset !== null;) {
      const part: FilePart = await this.#member.call('private/pitwire_get_simulation_file', {
        simulation_id: id,
        name,
        offset,
      });
      if (part.state === 'working') {
        await new Promise((resolve) => setTimeout(resolve, PART_INTERVAL));
        continue;
      }
      parts.push(bytesOf(part.data));
      offset = part.next_offset;
    }
    return new Blob(parts);
  }

  async report(id: number): Promise<Report> {
    return JSON.parse(await (await this.read(id, 'report.json')).text()) as Report;
  }
}
