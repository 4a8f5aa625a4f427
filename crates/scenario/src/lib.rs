//! Scripted markets: a scenario sets up one instrument, runs a few steps and states the expected
//! outcome.
//!
//! Does        reads scenario files ([`read`]), plays a scenario on any engine ([`play`]) and
//!             compares the outcome with
//!             the expectation in the file ([`Scenario::differences`]). `docs/rulebook.md` section
//!             19 defines the format.
//! Holds       1. A scenario is deterministic: it uses no clock, no random numbers and no state of
//!                an earlier run.
//!             2. A misspelled key or word is an error that names its line. Nothing is ignored
//!                silently.
//! Leaves out  money: every account has unlimited credit unless the scenario sets up its funds;
//!             file access: the caller
//!             reads the files; trading rules: the engine applies them.
//! Start at    [`play`], then `script` for the format and `outcome` for the result.

mod calendar;
mod expectation;
mod json;
mod off_book_state;
mod off_book_steps;
mod outcome;
mod play;
mod rules;
mod script;
mod words;

pub use calendar::{date_text, day_of, time_text};
pub use json::ScenarioError;
pub use off_book_state::{Holding, OffBookOutcome, OffBookRow};
pub use outcome::{Book, ClosingPrice, Outcome, Row, StepEvent, StepOutcome, TradeRow};
pub use play::{Machine, References, Witness, play, play_watched};
pub use rules::{Cell, Contracts};
pub use script::{AccountSetup, Amendment, Entry, Expires, Funds, Report, ReportAnswer, Scenario, Setup, Step, read};
pub use words::{reason_of_leaving, type_word};
