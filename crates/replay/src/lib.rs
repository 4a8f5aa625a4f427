//! Recorded order-by-order tapes, replayed through the engine together with orders of the user.
//!
//! Does        read a tape from an export of this project, from LOBSTER message files or from
//!             trades and depth in Binance's form, enter its orders into an engine, let orders of
//!             the user join the queue, and compare the trades with the recorded ones.
//! Holds       without orders of the user, a tape whose every order is known gives its recorded
//!             trades exactly.
//! Leaves out  crosses, price bands, and recorded orders that are hidden, stops or icebergs: they
//!             are counted.
//! Start at    [`Replay::run`], then [`RecordedTape`].

mod binance;
mod lobster;
mod own_export;
mod own_orders;
mod replay;
mod tape;

pub use binance::BinanceReader;
pub use lobster::read_lobster;
pub use own_export::read_export;
pub use own_orders::{OwnOrder, read_own_orders};
pub use replay::{OwnFill, Replay, ReplayReport};
pub use tape::{RecordedTape, RecordedTrade, TapeAction, TapeStep};
