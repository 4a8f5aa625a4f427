//! Sessions of an instrument and its trading rules.

use crate::{Label, Lots, Ticks};

/// The session of an instrument. Only a sequenced command changes it.
/// `contracts/rules/sessions.toml` defines which orders each session accepts, injects and expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// No new orders, amends or matching. Cancels are accepted.
    Closed = 0,
    Continuous = 1,
    /// Permits the same as `Closed`, by an operator's command. Resting orders stay.
    Halted = 2,
    /// Deleted permanently.
    Deleted = 3,
    StartOfTrading = 4,
    OpeningCall = 5,
    FcoCall = 6,
    /// The call after a breach of a tolerance.
    VolatilityCall = 7,
    IntradayCall = 8,
    ClosingCall = 9,
    ReopeningCall = 10,
    ClosingPricePublication = 11,
    ClosingPriceCross = 12,
    PostClose = 13,
    /// A halt that publishes a closing price.
    HaltAndClose = 14,
    /// Orders are accepted and rest; nothing executes.
    Pause = 15,
}

impl Phase {
    pub const ALL: [Phase; 16] = [
        Phase::Closed,
        Phase::Continuous,
        Phase::Halted,
        Phase::Deleted,
        Phase::StartOfTrading,
        Phase::OpeningCall,
        Phase::FcoCall,
        Phase::VolatilityCall,
        Phase::IntradayCall,
        Phase::ClosingCall,
        Phase::ReopeningCall,
        Phase::ClosingPricePublication,
        Phase::ClosingPriceCross,
        Phase::PostClose,
        Phase::HaltAndClose,
        Phase::Pause,
    ];

    /// Returns the name in the rulebook, in scenarios and in `contracts/rules`.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Closed => "closed",
            Phase::Continuous => "continuous",
            Phase::Halted => "halt",
            Phase::Deleted => "deleted",
            Phase::StartOfTrading => "start_of_trading",
            Phase::OpeningCall => "opening_auction",
            Phase::FcoCall => "fco_auction",
            Phase::VolatilityCall => "volatility_auction",
            Phase::IntradayCall => "intraday_auction",
            Phase::ClosingCall => "closing_auction",
            Phase::ReopeningCall => "reopening_auction",
            Phase::ClosingPricePublication => "closing_price_publication",
            Phase::ClosingPriceCross => "closing_price_cross",
            Phase::PostClose => "post_close",
            Phase::HaltAndClose => "halt_and_close",
            Phase::Pause => "pause",
        }
    }

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

/// Why a session began or its end moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SessionReason {
    Scheduled = 0,
    Operator = 1,
    /// A price breached a tolerance.
    Breaker = 2,
    Extended = 3,
    /// The venue was down when the session was due.
    Missed = 4,
}

impl SessionReason {
    pub const ALL: [SessionReason; 5] = [
        SessionReason::Scheduled,
        SessionReason::Operator,
        SessionReason::Breaker,
        SessionReason::Extended,
        SessionReason::Missed,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            SessionReason::Scheduled => "scheduled",
            SessionReason::Operator => "operator",
            SessionReason::Breaker => "breaker",
            SessionReason::Extended => "extended",
            SessionReason::Missed => "missed",
        }
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

/// How an incoming quantity, or the volume of an auction, is allocated among orders of one price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Allocation {
    #[default]
    PriceTime = 0,
    ProRata = 1,
    /// Continuous trading in batches of one price.
    FrequentBatch = 2,
}

impl Allocation {
    pub const ALL: [Allocation; 3] = [Allocation::PriceTime, Allocation::ProRata, Allocation::FrequentBatch];

    pub const fn name(self) -> &'static str {
        match self {
            Allocation::PriceTime => "price_time",
            Allocation::ProRata => "pro_rata",
            Allocation::FrequentBatch => "frequent_batch",
        }
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

/// How a closing price was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Derivation {
    ClosingAuction = 0,
    /// Volume-weighted average of the last ten minutes of continuous trading.
    Vwap = 1,
    LastTrade = 2,
    PreviousClose = 3,
    /// Set by an operator.
    Manual = 4,
}

impl Derivation {
    pub const ALL: [Derivation; 5] = [
        Derivation::ClosingAuction,
        Derivation::Vwap,
        Derivation::LastTrade,
        Derivation::PreviousClose,
        Derivation::Manual,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Derivation::ClosingAuction => "closing_auction",
            Derivation::Vwap => "vwap",
            Derivation::LastTrade => "last_trade",
            Derivation::PreviousClose => "previous_close",
            Derivation::Manual => "manual",
        }
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
