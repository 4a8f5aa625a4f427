export interface Question {
  title: string;
  text: string;
  /** What the button that does it says. */
  action: string;
}

/** One question at a time to a person, before something that cannot be taken back. */
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
