import type { Question } from '../../stores/confirm.svelte';

/** Runs a command of the operator, after a question where one is given, and says on screen what came of it. */
export type Attempt = (what: string, work: () => Promise<unknown>, question?: Question) => Promise<boolean>;
