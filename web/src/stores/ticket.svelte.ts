import { onGrid } from '../lib/decimal';
import { blank, hasPrice, type Form } from '../lib/ticket';
import type { Listing } from './board.svelte';

/** The order form. The book fills it in too, so it is a store outside of its panel. */
export class TicketState {
  form = $state<Form>(blank());
  #instrument: string | null = null;

  /** Clears the price when the market changes. The order type stays. */
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
