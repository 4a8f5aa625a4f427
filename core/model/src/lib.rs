//! Units, instruments, and the one vocabulary of commands, events and rejects.
//!
//! Does        name every quantity, every thing a member may ask, and every thing the venue may say.
//! Holds       1. prices are whole ticks, quantities whole lots, time whole nanoseconds, money whole units;
//!             2. nothing here reads a clock, a file or a random source.
//! Leaves out  byte layouts (`wire/log`), text layouts (`wire/jsonrpc`), matching (`core/engine`).
//! Start at    [`Command`], then [`Event`].

mod command;
mod decimal;
mod event;
mod instrument;
mod reject;
mod units;

pub use command::{Amend, Command, Credit, Label, NewOrder, OrderType, Priority, Stamped, TimeInForce};
pub use decimal::{Decimal, DecimalError};
pub use event::{CancelReason, Event};
pub use instrument::{AccountSpec, Currency, InstrumentKind, InstrumentSpec, Phase};
pub use reject::Reject;
pub use units::{AccountId, CurrencyId, Epoch, InstrumentId, Lots, OrderId, Seq, Side, Ticks, TradeSeq, VenueNanos};
