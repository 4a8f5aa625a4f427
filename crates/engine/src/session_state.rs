//! The state of an instrument's session and the prices that sessions leave behind.

use pitwire_model::{Derivation, Phase, RemainingSessions, Ticks, VenueNanos};

use crate::rule_tables::{TifSet, session_permissions};

/// The price, volume and imbalance of a call that were published last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndicativeUncross {
    pub price: Option<Ticks>,
    pub volume: u64,
    /// Lots that would buy at `price`, less lots that would sell there.
    pub imbalance: i64,
}

/// Work at the end of a call that was interrupted, and that waits for the end of the next call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeferredCallEnd {
    /// Orders that the end of the call would have cancelled.
    pub expire: TifSet,
    /// Whether any work waits.
    pub waits: bool,
}

/// The current session of an instrument.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// When the session is expected to end.
    pub ends: Option<VenueNanos>,
    /// Sessions that are still to come on this day.
    pub remaining: RemainingSessions,
    /// Whether the venue was down for the whole of this call, so that it is only reported.
    pub missed: bool,
    /// The call that a volatility call continues.
    pub continues: Option<Phase>,
    pub deferred: DeferredCallEnd,
    pub indicative: IndicativeUncross,
}

impl SessionState {
    /// Defers the end of `call` until the next call ends.
    pub fn defer_call_end(&mut self, call: Phase) {
        let expire = self.deferred.expire.union(session_permissions(call).expire);
        self.deferred = DeferredCallEnd { expire, waits: true };
    }
}

/// Prices that outlive the trades or sessions they came from.
#[derive(Debug, Default)]
pub(crate) struct StoredPrices {
    /// The price of the latest uncross of a call; the start price before the first one.
    pub static_reference: Option<Ticks>,
    /// The dynamic reference that was set up before the first trade. `None` after that.
    pub dynamic_reference: Option<Ticks>,
    /// Closing price of the day.
    pub closing: Option<(Ticks, Derivation)>,
    /// Closing price of the day before.
    pub previous_close: Option<Ticks>,
    /// The price of the latest uncross of a call or batch.
    pub uncross_price: Option<Ticks>,
}
