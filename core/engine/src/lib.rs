//! The matching engine: a command in, events out.
//!
//! Does        keep instruments, accounts and books; apply one stamped command at a time.
//! Holds       1. equal commands give equal events, to the byte, on any machine;
//!             2. while an instrument trades continuously its best bid is below its best offer;
//!             3. a refused command changes nothing;
//!             4. money is conserved: what one account gains, others lose.
//! Leaves out  clocks, numbering, logging, byte layouts.
//! Costs       enter, cancel, fill: constant each; mass cancel and day end: the resting orders.
//! Start at    [`Engine::apply`], then `trading` and `funds`, then `book`.

mod account;
mod book;
mod engine;
mod funds;
mod image;
mod index;
mod market;
pub mod reference;
mod trading;

pub use account::{Account, Balance, Position};
pub use book::{Book, Maker, Meeting, Origin, Owner, Resting, Slot, SweepSink};
pub use engine::{Engine, EventSink, OrderView};
pub use image::{AccountImage, EngineImage, ImageError, MarketImage, OrderImage};
pub use index::OrderIndex;
pub use market::Market;
