//! Units, instruments, commands, events and rejects: the types that every crate shares.
//!
//! Does        define every quantity, every command of the venue and every event.
//! Holds       1. prices are whole ticks, quantities whole lots, time whole nanoseconds, money
//!                whole units;
//!             2. nothing here reads a clock, a file or a random source.
//! Leaves out  byte layouts (`crates/journal`), text layouts (`crates/deribit`), except decimals
//!             and dates; matching (`crates/engine`).
//! Start at    [`Command`], then [`Event`].

mod cancel_reason;
mod coded_enum;
mod command;
mod date;
mod decimal;
mod event;
mod instrument;
mod label;
mod operator;
mod order_terms;
mod reject;
mod report;
mod session;
mod signature;
mod units;

pub use cancel_reason::CancelReason;
pub use command::{Amend, CancelFilter, Command, NewOrder, Priority, SequencedCommand};
pub use date::{format_date, parse_date};
pub use decimal::{Decimal, DecimalError};
pub use event::{Event, TradeKind};
pub use instrument::{
    AccountSettings, AccountSpec, Credit, Currency, InstrumentKind, InstrumentLimits, InstrumentSpec, SelfMatch,
    Throttle,
};
pub use label::Label;
pub use operator::{Bust, FlowSetting, KillScope};
pub use order_terms::{Expiry, MatchGroup, OrderType, PostOnly, TimeInForce};
pub use reject::Reject;
pub use report::{OffBookTrade, ReportEnd, TradeReport};
pub use session::{
    Allocation, Derivation, Phase, Reference, RemainingSessions, SessionReason, Tolerance, TradingRules,
};
pub use signature::{SignatureDigest, SignaturePurpose, SpentSignature};
pub use units::{
    AccountId, CurrencyId, Epoch, InstrumentId, Lots, OrderId, Seq, SessionId, Side, Ticks, TradeSeq, VenueDay,
    VenueNanos,
};
