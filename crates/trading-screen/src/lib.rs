//! The trading screen of a terminal: its state, keys and drawing, and its connections to a venue.
//!
//! Does        shows ladder, trades, own orders with their queue positions, positions, balances,
//!             latencies and the countdown of a session; enters, edits and cancels orders by keys.
//! Holds       1. The state, the keys and the drawing do no I/O. Time is an argument.
//!             2. The terminal is restored at the end, after an error and in a panic.
//!             3. An order with a lost answer is shown as unknown until a query settles it.
//!             4. A text of the venue cannot steer the terminal.
//! Leaves out  orders with a date, take-profits and trailing stops: `pitwire trade` enters them.
//! Start at    [`Tui::run`]; then `screen` (state), `keys`, `draw`, and `run` (the loop).

mod clock;
mod command;
mod draw;
mod instrument;
mod instrument_list;
mod key_thread;
mod keys;
mod ladder;
mod latency;
mod market_feed;
mod messages;
mod requests;
mod run;
mod screen;
mod terminal_guard;
mod theme;
mod ticket;

pub use command::Tui;
