import type { Question } from '../../stores/confirm.svelte';

/** Runs an operator's command, after a question if given, and shows the result. */
export type Attempt = (what: string, work: () => Promise<unknown>, question?: Question) => Promise<boolean>;
