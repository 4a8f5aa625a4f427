import type { Connection } from '../lib/connection';
import { decimalsOf } from '../lib/format';
import { phase, type Instrument, type Ticker } from '../lib/venue';

/** Decimals of the volume of an inverse contract, whose lot is a small part of one base unit. */
const INVERSE_VOLUME_DECIMALS = 4;

/** One row of the instrument list: the instrument, its number formats and its newest ticker. */
export class Listing {
  ticker = $state.raw<Ticker | null>(null);
  /** The direction of the latest change of the last price. */
  direction = $state<'up' | 'down' | null>(null);
  readonly name: string;
  readonly priceDecimals: number;
  readonly amountDecimals: number;
  /** Whether amounts are in the quote currency. Volumes are in the base currency all the same. */
  readonly isInverse: boolean;
  readonly volumeDecimals: number;

  constructor(readonly instrument: Instrument) {
    this.name = instrument.instrument_name;
    this.priceDecimals = decimalsOf(instrument.tick_size);
    this.amountDecimals = decimalsOf(instrument.min_trade_amount);
    this.isInverse = instrument.instrument_type === 'reversed';
    this.volumeDecimals = this.isInverse ? INVERSE_VOLUME_DECIMALS : this.amountDecimals;
  }

  update(ticker: Ticker): void {
    const before = this.ticker?.last_price;
    const now = ticker.last_price;
    if (before !== undefined && now !== undefined && before !== now)
      this.direction = now > before ? 'up' : 'down';
    this.ticker = ticker;
  }

  /** Set unless the market trades continuously: "halted", "intraday auction". */
  get phase(): string | null {
    return phase(this.ticker?.state ?? this.instrument.state, this.ticker?.session);
  }
}

/** All instruments of the venue, with live tickers. */
export class Board {
  listings = $state.raw<Listing[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);
  #connection: Connection;
  #close: (() => void) | null = null;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  find(name: string): Listing | undefined {
    return this.listings.find((listing) => listing.name === name);
  }

  /**
   * Runs on every connect and at intervals, because an operator may change the list at any time.
   */
  async load(): Promise<void> {
    try {
      const listed = await this.#connection.call<Instrument[]>('public/get_instruments');
      // Deleted instruments stay in the list, for looking up old trades.
      const instruments = listed.filter(({ state }) => state !== 'archivized');
      const terms = instruments.map(termsOf);
      const same = terms.join() === this.listings.map(({ instrument }) => termsOf(instrument)).join();
      this.error = null;
      this.loaded = true;
      if (same) return;
      const known = new Map(this.listings.map((listing) => [termsOf(listing.instrument), listing]));
      this.#close?.();
      this.listings = instruments.map((instrument, at) => known.get(terms[at]!) ?? new Listing(instrument));
      const byChannel = new Map(this.listings.map((listing) => [`ticker.${listing.name}.100ms`, listing]));
      this.#close = this.#connection.subscribe([...byChannel.keys()], (data, channel) => {
        byChannel.get(channel)?.update(data as Ticker);
      });
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
  }
}

/** The fields that identify a listing. Its current state comes with the ticker. */
function termsOf(instrument: Instrument): string {
  const { state: _state, session: _session, is_active: _active, ...terms } = instrument;
  return JSON.stringify(terms);
}
