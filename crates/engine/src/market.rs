//! One instrument's state: its definition, phase, book, counters and reference prices.

use std::collections::BTreeSet;

use pitwire_model::{
    Allocation, CurrencyId, Decimal, Derivation, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, Phase,
    RemainingSessions, Side, Ticks, Tolerance, TradeSeq, TradingRules, VenueNanos,
};

use crate::book::{Book, OrderOrigin};
use crate::day::ClosingPriceInputs;
use crate::special::Special;

/// How fills become money, in whole units; worked out once from the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlementTerms {
    Spot { base: CurrencyId, quote: CurrencyId, base_units_per_lot: i128, quote_units_per_tick_lot: i128 },
    Inverse { settle: CurrencyId, value_numerator: i128, max_leverage: i128 },
}

#[derive(Debug)]
pub struct Market {
    pub spec: InstrumentSpec,
    pub(crate) money: SettlementTerms,
    pub(crate) phase: Phase,
    /// Continuous trading by price and time with nothing hidden, nothing waiting for a price and no tolerances: an order
    /// without terms meets the book and nothing else. Kept up by [`Market::judge`].
    pub(crate) plain: bool,
    /// Some limit is set: says that an order has to be measured.
    pub(crate) limited: bool,
    pub(crate) book: Book<OrderOrigin>,
    /// Advanced by each command that changes public state.
    pub(crate) change_id: u64,
    pub(crate) trades: TradeSeq,
    pub(crate) last: Option<Ticks>,
    pub(crate) index: Ticks,
    pub(crate) mark: Ticks,
    /// Trades taken back.
    pub(crate) busted: BTreeSet<TradeSeq>,
    pub(crate) day: ClosingPriceInputs,
    /// Live orders beside the book.
    pub(crate) kept: u32,
    pub(crate) rules: Box<TradingRules>,
    pub(crate) special: Box<Special>,
}

impl Market {
    pub(crate) fn new(spec: InstrumentSpec, money: SettlementTerms) -> Self {
        let start = spec.start_price;
        let rules = spec.rules.clone().unwrap_or_default();
        let mut special = Box::new(Special::default());
        special.static_reference = Some(start);
        Market {
            limited: spec.limits != InstrumentLimits::default(),
            spec,
            money,
            phase: Phase::Closed,
            plain: false,
            book: Book::new(),
            change_id: 0,
            trades: TradeSeq::ZERO,
            last: None,
            index: start,
            mark: start,
            busted: BTreeSet::new(),
            day: ClosingPriceInputs::default(),
            kept: 0,
            rules,
            special,
        }
    }

    /// Works out whether orders without terms need to look at anything but the book; after every change of what that
    /// hangs on.
    pub(crate) fn judge(&mut self) {
        let Market { rules, special, .. } = self;
        self.plain = self.phase == Phase::Continuous
            && rules.allocation == Allocation::PriceTime
            && rules.tolerance(Phase::Continuous) == Tolerance::default()
            && rules.band_pct.is_none()
            && special.dynamic_reference.is_none()
            && !special.has_hidden()
            && !special.has_stops();
    }

    /// Continuous trading by batches of one price.
    pub(crate) fn batches(&self) -> bool {
        self.phase == Phase::Continuous && self.rules.allocation == Allocation::FrequentBatch
    }

    /// For every trade that moves the last price; not in the closing price cross.
    pub(crate) fn traded(&mut self, price: Ticks) {
        self.last = Some(price);
        self.special.dynamic_reference = None;
    }

    /// Told of every change of what an active visible order has open in all, `None` for one without a price.
    pub(crate) fn whole_changed(&mut self, side: Side, price: Option<Ticks>, lots: i64) {
        if let Some(curve) = &mut self.special.curve {
            curve.note(side, price, lots);
        }
    }

    /// The price of the latest uncross of a call, at first the start price.
    pub fn static_reference(&self) -> Option<Ticks> {
        self.special.static_reference
    }

    /// The last price; before the first trade as it was set up.
    pub fn dynamic_reference(&self) -> Option<Ticks> {
        self.special.dynamic_reference.or(self.last)
    }

    /// What calls and filters look at where orders alone decide nothing.
    pub fn reference(&self) -> Option<Ticks> {
        self.last.or(self.special.static_reference)
    }

    /// At what the closing price cross trades.
    pub(crate) fn cross_price(&self) -> Option<Ticks> {
        self.special.closing.map(|(price, _)| price).or(self.special.previous_close)
    }

    pub fn rules(&self) -> &TradingRules {
        &self.rules
    }

    /// When the session that runs is expected to end.
    pub fn ends(&self) -> Option<VenueNanos> {
        self.special.ends
    }

    pub fn remaining(&self) -> RemainingSessions {
        self.special.remaining
    }

    pub fn closing(&self) -> Option<(Ticks, Derivation)> {
        self.special.closing
    }

    pub fn previous_close(&self) -> Option<Ticks> {
        self.special.previous_close
    }

    /// Price of the last uncross of a call or batch.
    pub fn uncross_price(&self) -> Option<Ticks> {
        self.special.uncross_price
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn book(&self) -> &Book<OrderOrigin> {
        &self.book
    }

    pub fn change_id(&self) -> u64 {
        self.change_id
    }

    pub fn trades(&self) -> TradeSeq {
        self.trades
    }

    pub fn last(&self) -> Option<Ticks> {
        self.last
    }

    /// The index price of a perpetual as last sampled; the start price elsewhere.
    pub fn index(&self) -> Ticks {
        self.index
    }

    /// The price by which a perpetual is valued, as last sampled.
    pub fn mark(&self) -> Ticks {
        self.mark
    }

    /// Best price and the quantity there.
    pub fn best(&self, side: Side) -> Option<(Ticks, Lots)> {
        self.book.best_price(side).map(|price| (price, self.book.lots_at(side, price)))
    }

    /// Midpoint in ticks, rounded down; the last trade, else the start price, when a side is empty.
    pub fn mid(&self) -> Ticks {
        match (self.book.best_price(Side::Buy), self.book.best_price(Side::Sell)) {
            (Some(bid), Some(ask)) => Ticks((bid.0 + ask.0).div_euclid(2)),
            _ => self.last.unwrap_or(self.spec.start_price),
        }
    }
}

impl SettlementTerms {
    /// What `lots` are worth at `price`: quote units of a spot trade, settlement units of an inverse
    /// contract, rounded down.
    #[inline]
    pub fn value(self, price: Ticks, lots: i128) -> i128 {
        match self {
            SettlementTerms::Spot { quote_units_per_tick_lot, .. } => {
                i128::from(price.0) * lots * quote_units_per_tick_lot
            }
            SettlementTerms::Inverse { value_numerator, .. } => lots * value_numerator / i128::from(price.0),
        }
    }

    /// The largest order may be worth so many units: far more than anybody holds, and sums of many still fit.
    const MOST_ORDER_UNITS: i128 = 1 << 120;
    /// The same of contracts, whose worth is multiplied by lots once more when a position is closed in part.
    const MOST_CONTRACT_UNITS: i128 = 1 << 80;

    /// `None` when a tick times a lot is not a whole number of money units, so that nothing could be settled exactly, or
    /// when the largest order would be worth more than [`Self::MOST_ORDER_UNITS`] or [`Self::MOST_CONTRACT_UNITS`].
    pub fn of(spec: &InstrumentSpec, base_decimals: u8, quote_decimals: u8) -> Option<SettlementTerms> {
        let most_lots = i128::from(Lots::MAX_ORDER.0);
        let most_tick_lots = most_lots * i128::from(Ticks::MAX_PRICE.0);
        let within = |units: i128, most: i128| (1..=most).contains(&units).then_some(units);
        let fits = |units, orders: i128| within(units, Self::MOST_ORDER_UNITS / orders);
        match spec.kind {
            InstrumentKind::Spot { base, quote } => {
                let value = Decimal::new(
                    spec.tick.mantissa.checked_mul(spec.lot.mantissa)?,
                    spec.tick.scale.checked_add(spec.lot.scale)?,
                );
                Some(SettlementTerms::Spot {
                    base,
                    quote,
                    base_units_per_lot: fits(spec.lot.in_steps_of(Decimal::new(1, base_decimals))?, most_lots)?,
                    quote_units_per_tick_lot: fits(
                        value.in_steps_of(Decimal::new(1, quote_decimals))?,
                        most_tick_lots,
                    )?,
                })
            }
            InstrumentKind::InversePerpetual { base, max_leverage, .. } => {
                // value of n lots at p ticks = (n · lot) / (p · tick) in base currency, times 10^decimals units.
                let units = 10_i128.checked_pow(u32::from(base_decimals))?;
                let scale = spec.tick.scale.max(spec.lot.scale);
                let (lot, tick) = (spec.lot.rescaled(scale)?, spec.tick.rescaled(scale)?);
                let numerator = lot.checked_mul(units)?;
                (tick > 0 && numerator % tick == 0 && max_leverage > 0).then_some(SettlementTerms::Inverse {
                    settle: base,
                    value_numerator: within(numerator / tick, Self::MOST_CONTRACT_UNITS / most_lots)?,
                    max_leverage: i128::from(max_leverage),
                })
            }
        }
    }
}
