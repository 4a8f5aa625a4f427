//! Units, instruments, and the one vocabulary of commands, events and rejects.
//!
//! Does        name every quantity, every thing a member may ask, and every thing the venue may say.
//! Holds       1. prices are whole ticks, quantities whole lots, time whole nanoseconds, money whole units;
//!             2. nothing here reads a clock, a file or a random source.
//! Leaves out  byte layouts (`crates/journal`), text layouts (`crates/deribit`; decimals and dates alone are read and written here), matching (`crates/engine`).
//! Start at    [`Command`], then [`Event`].

mod command;
mod date;
mod decimal;
mod event;
mod instrument;
mod reject;
mod report;
mod session;
mod units;

pub use command::{
    Amend, Bust, CancelFilter, Command, Credit, Expiry, FlowSetting, KillScope, Label, MatchGroup, NewOrder, OrderType,
    PostOnly, Priority, Stamped, TimeInForce,
};
pub use date::{format_date, parse_date};
pub use decimal::{Decimal, DecimalError};
pub use event::{CancelReason, Event, TradeKind};
pub use instrument::{
    AccountSettings, AccountSpec, Currency, InstrumentKind, InstrumentLimits, InstrumentSpec, SelfMatch, Throttle,
};
pub use reject::Reject;
pub use report::{OffBookTrade, ReportEnd, TradeReport};
pub use session::{
    Allocation, Derivation, Phase, Reference, RemainingSessions, SessionReason, Tolerance, TradingRules,
};
pub use units::{
    AccountId, CurrencyId, Epoch, InstrumentId, Lots, OrderId, Seq, SessionId, Side, Ticks, TradeSeq, VenueDay,
    VenueNanos,
};
