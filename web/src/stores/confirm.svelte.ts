export interface Question {
  title: string;
  text: string;
  /** The label of the confirming button. */
  action: string;
}

/** Asks the user one question before an action that cannot be undone. */
export class Confirm {
  question = $state.raw<Question | null>(null);
  #answer: ((yes: boolean) => void) | null = null;

  ask(question: Question): Promise<boolean> {
    this.#answer?.(false);
    this.question = question;
    return new Promise((resolve) => (this.#answer = resolve));
  }

  answer(yes: boolean): void {
    this.question = null;
    this.#answer?.(yes);
    this.#answer = null;
  }
}
