import { onGrid } from '../lib/decimal';
import { blank, hasPrice, type Form } from '../lib/ticket';
import type { Listing } from './board.svelte';

/** The order being written. The book fills it in, so it lives outside the panel that shows it. */
export class TicketState {
  form = $state<Form>(blank());
  #instrument: string | null = null;

  /** A price of one market means nothing in another; what kind of order is wanted may stay. */
  turnTo(instrument: string | null): void {
    if (instrument === this.#instrument) return;
    this.#instrument = instrument;
    this.form.price = this.form.amount = this.form.display = this.form.stop = this.form.minimum = '';
  }

  take(price: number, listing: Listing): void {
    if (!hasPrice(this.form.type)) this.form.type = 'limit';
    this.form.price = onGrid(price, listing.instrument.tick_size);
  }
}
