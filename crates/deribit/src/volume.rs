//! Traded volume of an account over seven days, which sets its order rate tier.
//!
//! Does        sum an account's fills of today and the six days before, in US dollars.
//! Holds       1. days are days of venue time in UTC; a day counts until it is a week old;
//!             2. US dollars and the stablecoins USDC and USDT count one for one. Other quote
//!                currencies do not count, because the venue has no exchange rate for them. An
//!                inverse contract counts with its dollar amount;
//!             3. a fill is counted once, and a bust does not take it back.
//! Leaves out  fills that the account's book has dropped: it keeps the newest 50,000.
//! Costs       the fills since the last call, and one entry per day.
//! Start at    [`Volume::count`].

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{Decimal, InstrumentId, InstrumentSpec, OrderId, TradeSeq, VenueNanos};
use pitwire_projections::{AccountBook, UserTrade};

const DAY_NS: u64 = 86_400_000_000_000;
const DAYS: u64 = 7;
const DOLLARS: [&str; 3] = ["USD", "USDC", "USDT"];

/// Volume of one account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volume {
    /// US cents by day since 1970.
    days: BTreeMap<u64, u128>,
    /// The newest fill that has been counted.
    last: Option<(InstrumentId, TradeSeq, OrderId)>,
}

const fn name_of(fill: &UserTrade) -> (InstrumentId, TradeSeq, OrderId) {
    (fill.instrument, fill.trade.seq, fill.order)
}

impl Volume {
    /// Counts the new fills of the account's book and returns the volume of seven days in whole US
    /// dollars.
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
