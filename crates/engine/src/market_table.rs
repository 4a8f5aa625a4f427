//! The instruments of a venue.
//!
//! Holds       1. ids have no gaps: an instrument stands at the index of its id; names are unique;
//!             2. every instrument can be settled: one tick times one lot is a whole number of
//!                money units;
//!             3. the index of a perpetual is a spot instrument that exists.
//! Start at    [`MarketTable`].

use pitwire_model::{
    AccountId, Currency, CurrencyId, Event, InstrumentId, InstrumentKind, InstrumentSpec, OrderId, Phase, Reject, Seq,
    Ticks, TradeReport, VenueNanos,
};

use crate::definition_checks::{check_limits, check_rules};
use crate::event_sink::EventSink;
use crate::image::ImageError;
use crate::market::Market;
use crate::settlement_terms::SettlementTerms;

/// All instruments of a venue, deleted ones included.
#[derive(Debug, Default)]
pub(crate) struct MarketTable {
    markets: Vec<Market>,
}

impl MarketTable {
    #[inline]
    pub fn as_slice(&self) -> &[Market] {
        &self.markets
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Market] {
        &mut self.markets
    }

    /// The ids of all instruments, ascending.
    pub fn ids(&self) -> impl Iterator<Item = InstrumentId> + use<> {
        (0_u32..).map(InstrumentId).take(self.markets.len())
    }

    #[inline]
    pub fn get(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id.0 as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, id: InstrumentId) -> Option<&mut Market> {
        self.markets.get_mut(id.0 as usize)
    }

    pub fn named(&self, name: &str) -> Option<&Market> {
        self.markets.iter().find(|market| market.spec.name == name)
    }

    /// # Errors
    /// `UnknownInstrument` or `InstrumentDeleted`.
    pub fn existing(&mut self, id: InstrumentId) -> Result<&mut Market, Reject> {
        let market = self.get_mut(id).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted { Err(Reject::InstrumentDeleted) } else { Ok(market) }
    }

    /// Adds an instrument.
    ///
    /// # Errors
    /// `AlreadyExists` or `BadDefinition`.
    pub fn add(&mut self, spec: &InstrumentSpec, currencies: &[Currency]) -> Result<(), Reject> {
        if spec.id.0 as usize != self.markets.len() || self.named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        let terms = self.settlement_terms(spec, currencies).ok_or(Reject::BadDefinition)?;
        check_limits(spec.limits)?;
        if let Some(rules) = &spec.rules {
            check_rules(rules)?;
        }
        if let InstrumentKind::InversePerpetual { index, .. } = spec.kind
            && self.get(index).is_some_and(|market| market.phase == Phase::Deleted)
        {
            return Err(Reject::BadDefinition);
        }
        self.markets.push(Market::new(spec.clone(), terms));
        Ok(())
    }

    /// Creates the market of an image. [`MarketTable::push`] adds it when it is complete.
    ///
    /// # Errors
    /// `ImageError` if the definition is not valid or does not come next.
    pub fn restored(&self, spec: InstrumentSpec, currencies: &[Currency]) -> Result<Market, ImageError> {
        let terms = self.settlement_terms(&spec, currencies).ok_or(ImageError("an instrument cannot be settled"))?;
        if spec.id.0 as usize != self.markets.len() {
            return Err(ImageError("instruments are out of order"));
        }
        if spec.rules.as_deref().is_some_and(|rules| check_rules(rules).is_err()) {
            return Err(ImageError("trading rules are not valid"));
        }
        Ok(Market::new(spec, terms))
    }

    /// Adds a market from [`MarketTable::restored`].
    pub fn push(&mut self, market: Market) {
        self.markets.push(market);
    }

    /// Computes the settlement terms of an instrument. Returns `None` if its definition is not
    /// valid.
    fn settlement_terms(&self, spec: &InstrumentSpec, currencies: &[Currency]) -> Option<SettlementTerms> {
        let decimals = |id: CurrencyId| currencies.get(id.0 as usize).map(|currency| currency.decimals);
        let has_valid_kind = match spec.kind {
            InstrumentKind::Spot { base, quote } => base != quote,
            InstrumentKind::InversePerpetual { index, .. } => {
                self.get(index).is_some_and(|market| market.spec.is_spot())
            }
        };
        let is_valid = has_valid_kind
            && !spec.name.is_empty()
            && spec.tick.mantissa > 0
            && spec.lot.mantissa > 0
            && (1..=Ticks::MAX_PRICE.0).contains(&spec.start_price.0);
        is_valid.then(|| SettlementTerms::of(spec, decimals(spec.base())?, decimals(spec.quote())?))?
    }

    /// Returns whether a perpetual that is not deleted uses `instrument` as its index.
    pub fn is_index(&self, instrument: InstrumentId) -> bool {
        self.markets.iter().any(|other| {
            let uses = matches!(other.spec.kind, InstrumentKind::InversePerpetual { index, .. } if index == instrument);
            uses && other.phase != Phase::Deleted
        })
    }

    /// Samples the index and mark prices of all perpetuals. The index price is the mid of the index
    /// instrument, in the ticks of the contract. The mark price is the contract's own mid, held
    /// within half a percent of the index price.
    pub fn sample_index(&mut self, out: &mut impl EventSink) {
        for at in 0..self.markets.len() {
            let InstrumentKind::InversePerpetual { index, .. } = self.markets[at].spec.kind else { continue };
            let Some(source) = self.get(index) else { continue };
            let price = source.spec.price(source.mid());
            let market = &mut self.markets[at];
            // The tick sizes of the two instruments may differ. The result is rounded down to whole
            // ticks.
            let scale = price.scale.max(market.spec.tick.scale);
            let (Some(value), Some(tick)) = (price.rescaled(scale), market.spec.tick.rescaled(scale)) else { continue };
            let Ok(index) = i64::try_from(value / tick) else { continue };
            let band = index / 200;
            market.index = Ticks(index.max(1));
            market.mark = Ticks(market.mid().0.clamp(index - band, index + band).max(1));
            out.emit(Event::IndexSampled { instrument: market.spec.id, index: market.index, mark: market.mark });
        }
    }

    /// Returns the number of displayed orders.
    pub fn shown_orders(&self) -> u64 {
        self.markets.iter().map(|market| u64::from(market.book.resting_orders())).sum()
    }

    /// Returns the earliest time after `after` at which a GTT order expires that `is_live` accepts.
    pub fn next_expiry(&self, after: VenueNanos, is_live: impl Fn(OrderId) -> bool) -> Option<VenueNanos> {
        self.markets.iter().filter_map(|market| market.expiries.next_after(after, &is_live)).min()
    }

    /// Returns a trade report that waits for confirmation.
    pub fn report(&self, number: Seq) -> Option<&TradeReport> {
        self.markets.iter().find_map(|market| market.reporting.waiting.get(&number))
    }

    /// Waiting trade reports that `account` has made or has to confirm, by instrument and number.
    pub fn reports_of(&self, account: AccountId) -> impl Iterator<Item = (Seq, &TradeReport)> {
        let waiting = self.markets.iter().flat_map(|market| &market.reporting.waiting);
        waiting.filter(move |(_, report)| report.concerns(account)).map(|(number, report)| (*number, report))
    }
}
