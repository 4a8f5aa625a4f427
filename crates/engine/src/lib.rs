//! The matching engine: a command in, events out.
//!
//! Does        hold instruments, accounts and books; apply one stamped command at a time.
//! Holds       1. equal commands produce equal events, to the byte, on every machine;
//!             2. while an instrument trades continuously, but not in batches, its best displayed
//!                bid is below its best displayed offer;
//!             3. a refused command changes nothing;
//!             4. money is conserved: what one account gains, others lose.
//! Leaves out  clocks, numbering, journals, byte layouts.
//! Costs       enter, cancel, fill: constant each; mass cancels, kills, the end of a day: the
//!             orders of the books concerned.
//! Start at    [`Engine::apply`], then `enter`, `continuous` and `book`: the path of a plain order
//!             on a plain market. One test sends every other order to `admission`, `controlled`,
//!             `auction` and `command_end`. Sessions change in `session_change`.
//!
//! A **plain order** is a limit or market order with the time in force DAY, GTC, IOC or FOK, and is
//! not reduce-only. A **plain market** trades continuously by price and time, without hidden
//! orders, stops, displayed reduce-only orders, price band or tolerances. There a plain order meets
//! the displayed book and nothing else. `HOT.` marks functions that run for each plain order.

mod account;
mod account_table;
mod admission;
mod allocation;
mod amend;
mod amend_special;
mod auction;
mod blocks;
mod book;
mod cancel;
mod clock;
mod closing_price;
mod command_end;
mod continuous;
mod controlled;
mod controls;
mod definition_checks;
mod definitions;
mod engine;
mod enter;
mod event_sink;
mod expiry_times;
mod fill_executor;
mod funds;
mod image;
mod incoming;
mod index;
mod instrument_commands;
mod kills;
mod limits;
mod live_orders;
pub mod look_ahead;
mod market;
mod market_context;
mod market_table;
mod operator;
mod order_checks;
mod position_room;
mod prefetch;
mod queries;
mod reduce_only;
mod reporting;
pub mod rule_tables;
mod rule_version;
mod session_change;
mod session_state;
mod settlement;
mod settlement_terms;
mod snapshot;
mod trade_reports;
mod undisplayed;
mod venue_day;

pub use account::{Account, AccountStatus, Balance, Position};
pub use book::{Book, FillEstimate, Maker, MakerAction, OrderOrigin, Owner, RestingOrder, Slot, SweepSink};
pub use closing_price::{ClosingPriceInputs, TradeRun};
pub use engine::Engine;
pub use event_sink::EventSink;
pub use image::{AccountImage, EngineImage, ImageError, MarketImage, OrderImage, SessionImage};
pub use index::{OrderIndex, Vacancy};
pub use market::Market;
pub use queries::OrderView;
pub use reporting::Reporting;
pub use rule_version::RULE_VERSION;
pub use session_state::IndicativeUncross;
pub use undisplayed::UndisplayedState;
