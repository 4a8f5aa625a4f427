//! The matching engine: a command in, events out.
//!
//! Does        keep instruments, accounts and books; apply one stamped command at a time.
//! Holds       1. equal commands give equal events, to the byte, on any machine;
//!             2. while an instrument trades continuously, but for frequent batches, its best visible bid is below its best
//!                visible offer;
//!             3. a refused command changes nothing;
//!             4. money is conserved: what one account gains, others lose.
//! Leaves out  clocks, numbering, logging, byte layouts.
//! Costs       enter, cancel, fill: constant each; mass cancels, kills, day end: the orders of the books concerned.
//! Start at    [`Engine::apply`], then `enter` and `matching`, then `book`: the way of a plain order on a plain market.
//!             Everything else of the rulebook leaves it at one test: `admit`, `special`, `session`, `aggress`, `auction`.

mod account;
mod admit;
mod aggress;
mod amend;
mod amend_special;
mod ask;
mod auction;
mod book;
mod bust;
mod cancel;
mod controls;
mod day;
mod define;
mod due;
mod engine;
mod enter;
mod expiry;
mod funds;
mod image;
mod index;
mod kill;
mod limits;
mod live;
pub mod look_ahead;
mod market;
mod matching;
mod operator;
mod reporting;
pub mod rule_tables;
mod schedule;
mod session;
mod settle;
mod settling;
mod special;

pub use account::{Account, AccountStatus, Balance, Position};
pub use ask::OrderView;
pub use book::{Book, FillEstimate, Maker, MakerAction, OrderOrigin, Owner, RestingOrder, Slot, SweepSink};
pub use day::{ClosingPriceInputs, TradeRun};
pub use engine::{Engine, EventSink, RULE_VERSION};
pub use image::{AccountImage, EngineImage, ImageError, MarketImage, OrderImage, SessionImage};
pub use index::{OrderIndex, Vacancy};
pub use market::Market;
pub use reporting::Reporting;
pub use special::{IndicativeUncross, UndisplayedState};
