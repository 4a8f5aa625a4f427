//! Price controls.

use pitwire_model::{Event, InstrumentId, Reference, Ticks};

/// A price too far from a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub price: Ticks,
    pub reference: Ticks,
    pub against: Reference,
    /// The tolerance, in hundredths of a percent.
    pub bps: u32,
}

impl Breach {
    pub fn event(self, instrument: InstrumentId) -> Event {
        let Breach { price, reference, against, bps } = self;
        Event::Breached { instrument, price, reference, against, bps }
    }
}
