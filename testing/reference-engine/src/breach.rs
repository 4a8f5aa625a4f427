//! The tolerances of the price controls.

use pitwire_model::{Event, InstrumentId, Phase, Reference, Ticks};

use crate::market::ReferenceMarket;

/// An execution price that is too far from a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceBreach {
    pub price: Ticks,
    pub reference: Ticks,
    pub against: Reference,
    pub bps: u32,
}

impl ReferenceBreach {
    pub fn event(self, instrument: InstrumentId) -> Event {
        let ReferenceBreach { price, reference, against, bps } = self;
        Event::Breached { instrument, price, reference, against, bps }
    }
}

impl ReferenceMarket {
    /// Returns the tolerance that a price breaches in a session. The static tolerance is tested
    /// first.
    pub fn breach(&self, session: Phase, price: Ticks, dynamic: Option<Ticks>) -> Option<ReferenceBreach> {
        let tolerance = self.rules().tolerance(session);
        let tests = [
            (tolerance.static_bps, self.prices.static_reference, Reference::Static),
            (tolerance.dynamic_bps, dynamic, Reference::Dynamic),
        ];
        tests.into_iter().find_map(|(bps, reference, against)| {
            let (bps, reference) = (bps?, reference?);
            let distance = i128::from(price.0 - reference.0).abs() * 10_000;
            let breaches = distance >= i128::from(bps) * i128::from(reference.0);
            breaches.then_some(ReferenceBreach { price, reference, against, bps })
        })
    }
}
