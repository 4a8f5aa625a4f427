//! What others write: each of these goes when its own file comes.

use pitwire_model::{InstrumentId, Phase, Reject, Ticks, Tolerance};

use crate::controls::Breach;
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::matching::Incoming;
use crate::special::Indicated;

#[allow(clippy::unused_self, clippy::needless_pass_by_ref_mut, clippy::unnecessary_wraps)]
impl Engine {
    // E2
    pub(crate) fn uncross(
        &mut self,
        _: InstrumentId,
        _: Phase,
        _: Tolerance,
        _: &mut impl EventSink,
    ) -> Result<Option<Ticks>, Breach> {
        Ok(None)
    }
    pub(crate) fn indicative(&mut self, _: InstrumentId) -> Indicated {
        Indicated::default()
    }
    pub(crate) fn open_cross(&mut self, _: InstrumentId, _: &mut impl EventSink) {}
    pub(crate) fn cross(&mut self, order: &Incoming, out: &mut impl EventSink) {
        self.join(order, out);
    }
    pub(crate) fn run_batch(&mut self, _: InstrumentId, _: &mut impl EventSink) -> Result<(), Reject> {
        Err(Reject::SessionNotAllowed)
    }
    /// How many lots an immediate order could take in the cross, self-match prevention counted as fill or kill does.
    pub(crate) fn cross_reach(&self, _: &Incoming) -> u32 {
        0
    }
    pub(crate) fn filter(
        &mut self,
        _: InstrumentId,
        _: Option<pitwire_model::OrderId>,
        _: &mut impl EventSink,
    ) -> Result<bool, Breach> {
        Ok(false)
    }
}

impl Market {
    /// E2: a phase has begun: the curve of a call begins or ends.
    pub(crate) fn phase_changed(&mut self) {}
}
