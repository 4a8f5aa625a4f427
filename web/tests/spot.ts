import type { Instrument } from '../src/lib/venue';

/** A share, as the venue describes it. */
export const SPOT: Instrument = {
  instrument_name: 'NPN_ZAR',
  kind: 'spot',
  base_currency: 'NPN',
  quote_currency: 'ZAR',
  instrument_type: 'linear',
  tick_size: 0.01,
  min_trade_amount: 1,
};
