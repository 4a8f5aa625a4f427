//! How the texts of notes write prices, quantities and times.

use pitwire_model::{InstrumentId, InstrumentKind, Lots, Ticks, VenueNanos};
use pitwire_scenario::time_text;

use crate::text_style::counted;
use crate::venue_view::VenueView;

impl VenueView {
    /// Returns a time as nanoseconds since 1970 of local time.
    pub fn local_ns(&self, at: VenueNanos) -> u64 {
        let offset_s = self.style.utc_offset.as_ref().map_or(0, |offset| offset(at.0));
        at.0.saturating_add_signed(offset_s.saturating_mul(1_000_000_000))
    }

    /// Writes a time of day in local time.
    pub fn time(&self, at: VenueNanos) -> String {
        time_text(self.local_ns(at))
    }

    pub fn price(&self, instrument: InstrumentId, price: Ticks) -> String {
        match self.market(instrument).filter(|_| !self.style.raw) {
            Some(market) => market.spec.price(price).to_string(),
            None => price.to_string(),
        }
    }

    /// Writes a price, or `none`.
    pub fn price_or_none(&self, instrument: InstrumentId, price: Option<Ticks>) -> String {
        price.map_or_else(|| "none".to_owned(), |price| self.price(instrument, price))
    }

    /// Writes a quantity with its unit: `300 NPN`, or `3 lots`.
    pub fn amount(&self, instrument: InstrumentId, lots: Lots) -> String {
        let Some(market) = self.market(instrument).filter(|_| !self.style.raw) else { return counted(lots.0, "lot") };
        let unit = match market.spec.kind {
            InstrumentKind::Spot { base, .. } => base,
            InstrumentKind::InversePerpetual { .. } => market.spec.quote(),
        };
        let unit = self.currencies.get(&unit).map_or("", String::as_str);
        format!("{} {unit}", market.spec.amount(lots)).trim_end().to_owned()
    }
}
