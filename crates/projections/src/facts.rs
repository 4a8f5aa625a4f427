//! The current state of an instrument for tickers, from the engine and the tape.

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, InstrumentSpec, Lots, Phase, Side, Ticks, VenueNanos};

use crate::{OffBook, SessionView, Stats, Views};

#[derive(Clone, Copy, Debug)]
pub struct MarketFacts<'a> {
    pub spec: &'a InstrumentSpec,
    pub phase: Phase,
    pub at: VenueNanos,
    pub best_bid: Option<(Ticks, Lots)>,
    pub best_ask: Option<(Ticks, Lots)>,
    /// The last trade price, or the start price before the first trade.
    pub last: Ticks,
    /// Perpetuals: the sampled mark price. Spot: the last trade price.
    pub mark: Ticks,
    /// Perpetuals: the sampled index. Spot: the start price.
    pub index: Ticks,
    pub stats: Option<Stats>,
    /// The public state of the session: its end, and what a call would do.
    pub session: Option<&'a SessionView>,
    /// Off-book trades. `None` if the instrument never had trade reporting hours.
    pub off_book: Option<&'a OffBook>,
    /// Perpetuals: the sum of all long positions.
    pub open_interest: Lots,
    /// The lowest price of a sell within the price band and the collar.
    pub lowest_sell: Ticks,
    /// The highest price of a buy within them; `None` without an upper limit.
    pub highest_buy: Option<Ticks>,
}

impl<'a> MarketFacts<'a> {
    pub fn of(engine: &'a Engine, views: &'a Views, id: InstrumentId, at: VenueNanos) -> Option<Self> {
        let market = engine.market(id)?;
        let last = market.last().unwrap_or(market.spec.start_price);
        let (mark, open_interest) = if market.spec.is_spot() {
            (last, Lots::ZERO)
        } else {
            let long = engine.accounts().iter().map(|account| account.position(id).lots.max(0).unsigned_abs());
            (market.mark(), Lots(long.sum()))
        };
        let (lowest_sell, highest_buy) = market.price_limits();
        Some(MarketFacts {
            spec: &market.spec,
            phase: market.phase(),
            at,
            best_bid: market.best(Side::Buy),
            best_ask: market.best(Side::Sell),
            last,
            mark,
            index: market.index(),
            stats: views.tape(id).and_then(|tape| tape.stats(at)),
            session: views.session(id),
            off_book: views.off_book(id),
            open_interest,
            lowest_sell,
            highest_buy,
        })
    }
}
