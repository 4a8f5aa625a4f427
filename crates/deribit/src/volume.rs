//! What an account has traded lately, by which the dialect's tiers let it enter orders faster.
//!
//! Does        sums an account's fills of today and the six days before, in US dollars.
//! Holds       1. days are whole days of venue time, UTC: a day's trading counts until it is a week old;
//!             2. dollars and the coins worth one count one for one; what is quoted in anything else does not count, for
//!                the venue knows no rate for it. An inverse contract counts with the dollars it stands for;
//!             3. a fill is counted once. What an operator takes back later stays counted.
//! Leaves out  fills that the account's book has forgotten: it keeps the newest 50,000.
//! Costs       the fills since it was asked last, and one entry a day.
//! Start at    [`Volume::count`].

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{Decimal, InstrumentId, InstrumentSpec, OrderId, TradeSeq, VenueNanos};
use pitwire_projections::{AccountBook, UserTrade};

const DAY_NS: u64 = 86_400_000_000_000;
const DAYS: u64 = 7;
const DOLLARS: [&str; 3] = ["USD", "USDC", "USDT"];

/// One account's volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volume {
    /// Cents by day since 1970.
    days: BTreeMap<u64, u128>,
    /// The newest fill that is counted.
    last: Option<(InstrumentId, TradeSeq, OrderId)>,
}

const fn name_of(fill: &UserTrade) -> (InstrumentId, TradeSeq, OrderId) {
    (fill.instrument, fill.trade.seq, fill.order)
}

impl Volume {
    /// Counts what is new in the account's book; whole dollars of the week.
    pub fn count(&mut self, book: &AccountBook, engine: &Engine, now: VenueNanos) -> u64 {
        let last = self.last;
        let fresh = book.trades().iter().rev().take_while(|fill| Some(name_of(fill)) != last);
        for fill in fresh.filter(|fill| !fill.busted) {
            let cents = engine.market(fill.instrument).map_or(0, |market| cents_of(fill, &market.spec, engine));
            let day = self.days.entry(fill.trade.at.0 / DAY_NS).or_default();
            *day = day.saturating_add(cents);
        }
        self.last = book.trades().back().map(name_of).or(last);
        let today = now.0 / DAY_NS;
        self.days = self.days.split_off(&(today + 1).saturating_sub(DAYS));
        let cents = self.days.values().fold(0_u128, |sum, day| sum.saturating_add(*day));
        u64::try_from(cents / 100).unwrap_or(u64::MAX)
    }
}

fn cents_of(fill: &UserTrade, spec: &InstrumentSpec, engine: &Engine) -> u128 {
    let quote = engine.currencies().iter().find(|currency| currency.id == spec.quote());
    if !quote.is_some_and(|currency| DOLLARS.contains(&currency.name.as_str())) {
        return 0;
    }
    let amount = spec.amount(fill.trade.lots);
    let value = if spec.is_spot() {
        let price = spec.price(fill.trade.price);
        Decimal::new(price.mantissa.saturating_mul(amount.mantissa), price.scale.saturating_add(amount.scale))
    } else {
        amount
    };
    let whole = 10_u128.saturating_pow(u32::from(value.scale));
    value.mantissa.unsigned_abs().saturating_mul(100) / whole
}
