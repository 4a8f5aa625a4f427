//! Sessions of an instrument and its trading rules.

use crate::coded_enum::coded_enum;
use crate::{Label, Lots, Ticks};

coded_enum! {
    /// The session of an instrument. Only a sequenced command changes it.
    /// `contracts/rules/sessions.toml` defines which orders each session accepts, injects and
    /// expires.
    #[derive(PartialOrd, Ord)]
    Phase {
        /// No new orders, amends or matching. Cancels are accepted.
        Closed = 0, "closed";
        Continuous = 1, "continuous";
        /// Permits the same as `Closed`, by an operator's command. Resting orders stay.
        Halted = 2, "halt";
        /// Deleted permanently.
        Deleted = 3, "deleted";
        StartOfTrading = 4, "start_of_trading";
        OpeningCall = 5, "opening_auction";
        FcoCall = 6, "fco_auction";
        /// The call after a breach of a tolerance.
        VolatilityCall = 7, "volatility_auction";
        IntradayCall = 8, "intraday_auction";
        ClosingCall = 9, "closing_auction";
        ReopeningCall = 10, "reopening_auction";
        ClosingPricePublication = 11, "closing_price_publication";
        ClosingPriceCross = 12, "closing_price_cross";
        PostClose = 13, "post_close";
        /// A halt that publishes a closing price.
        HaltAndClose = 14, "halt_and_close";
        /// Orders are accepted and rest; nothing executes.
        Pause = 15, "pause";
    }
}

impl Phase {
    pub fn named(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Returns whether the session is a call.
    pub const fn is_call(self) -> bool {
        self.is_scheduled_call() || self.is_triggered_call()
    }

    pub const fn is_scheduled_call(self) -> bool {
        matches!(self, Phase::OpeningCall | Phase::FcoCall | Phase::IntradayCall | Phase::ClosingCall)
    }

    /// Returns whether the session is a call after a breach, a halt or a pause.
    pub const fn is_triggered_call(self) -> bool {
        matches!(self, Phase::VolatilityCall | Phase::ReopeningCall)
    }

    /// Returns whether nothing executes in the session or at its end.
    pub const fn is_quiet(self) -> bool {
        !self.is_call() && !matches!(self, Phase::Continuous | Phase::ClosingPriceCross)
    }
}

coded_enum! {
    /// Why a session began or its end moved.
    SessionReason {
        Scheduled = 0, "scheduled";
        Operator = 1, "operator";
        /// A price breached a tolerance.
        Breaker = 2, "breaker";
        Extended = 3, "extended";
        /// The venue was down when the session was due.
        Missed = 4, "missed";
    }
}

/// How many times each session is still to come today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemainingSessions {
    /// Counts by the discriminant of [`Phase`].
    pub counts: [u8; 16],
}

impl RemainingSessions {
    pub const fn holds(&self, phase: Phase) -> bool {
        self.counts[phase as usize] > 0
    }

    pub fn take_one(&mut self, phase: Phase) {
        let count = &mut self.counts[phase as usize];
        *count = count.saturating_sub(1);
    }
}

coded_enum! {
    /// How an incoming quantity, or the volume of an auction, is allocated among orders of one
    /// price.
    #[derive(Default)]
    Allocation {
        #[default]
        PriceTime = 0, "price_time";
        ProRata = 1, "pro_rata";
        /// Continuous trading in batches of one price.
        FrequentBatch = 2, "frequent_batch";
    }
}

/// How far from a reference a price may execute, in basis points. A price at the tolerance breaches
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tolerance {
    pub static_bps: Option<u32>,
    pub dynamic_bps: Option<u32>,
}

/// A reference price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reference {
    /// The price of the latest uncross of a call.
    Static = 0,
    /// The last price.
    Dynamic = 1,
}

coded_enum! {
    /// How a closing price was derived.
    Derivation {
        ClosingAuction = 0, "closing_auction";
        /// Volume-weighted average of the last ten minutes of continuous trading.
        Vwap = 1, "vwap";
        LastTrade = 2, "last_trade";
        PreviousClose = 3, "previous_close";
        /// Set by an operator.
        Manual = 4, "manual";
    }
}

/// The rules that each instrument sets for itself (rulebook 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradingRules {
    /// Name of a group of instruments, used by schedules, operators and mass cancels. The engine
    /// does not read it.
    pub segment: Label,
    /// MRS: smallest quantity of a hidden order.
    pub minimum_reserve: Option<Lots>,
    /// Smallest price improvement of a hidden order over the best price, in ticks, from 1.
    pub improvement: Ticks,
    /// How far a limit price may lie from the static reference, in percent.
    pub band_pct: Option<u32>,
    /// Smallest display of an iceberg, in percent of its quantity, from 1 to 100.
    pub min_display_pct: u32,
    /// Tolerances by [`TradingRules::session_index`]. That of the volatility call is not used.
    pub tolerances: [Tolerance; 7],
    pub allocation: Allocation,
    /// Duration of a volatility call in nanoseconds.
    pub volatility_call_ns: u64,
    /// Time between two batches in nanoseconds. The engine does not read it: `Command::RunBatch`
    /// ends a batch.
    pub batch_interval_ns: u64,
}

impl Default for TradingRules {
    fn default() -> Self {
        TradingRules {
            segment: Label::NONE,
            minimum_reserve: None,
            improvement: Ticks(1),
            band_pct: None,
            min_display_pct: 1,
            tolerances: [Tolerance::default(); 7],
            allocation: Allocation::PriceTime,
            volatility_call_ns: 300_000_000_000,
            batch_interval_ns: 100_000_000,
        }
    }
}

impl TradingRules {
    /// Returns the index of a session in `tolerances`; `None` for sessions without tolerances.
    pub const fn session_index(phase: Phase) -> Option<usize> {
        match phase {
            Phase::Continuous => Some(0),
            Phase::OpeningCall => Some(1),
            Phase::FcoCall => Some(2),
            Phase::VolatilityCall => Some(3),
            Phase::IntradayCall => Some(4),
            Phase::ClosingCall => Some(5),
            Phase::ReopeningCall => Some(6),
            _ => None,
        }
    }

    /// Returns the smallest display of an iceberg of `lots`.
    pub fn min_display(&self, lots: Lots) -> Lots {
        let share = u128::from(lots.0) * u128::from(self.min_display_pct);
        Lots(u64::try_from(share.div_ceil(100)).unwrap_or(u64::MAX).max(1))
    }

    pub fn tolerance(&self, phase: Phase) -> Tolerance {
        Self::session_index(phase).map_or(Tolerance::default(), |at| self.tolerances[at])
    }
}
