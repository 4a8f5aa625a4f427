//! Scripted markets: one instrument, a few steps, and what is to come of them.
//!
//! Does        read scenario files ([`read`]), play a scenario on any engine ([`play`]), compare the outcome with what
//!             the file expects ([`Scenario::differences`]). `docs/rulebook.md` section 19 is the format.
//! Holds       1. a scenario names everything: no clock, no chance, nothing of one run is left in the next;
//!             2. what is misspelled is refused with its line, never passed over.
//! Leaves out  money: every account is a house account, unless its funds are set up; files: the caller reads them; rules: the engine has them.
//! Start at    [`play`], then `script` for the format and `outcome` for the result.

mod beside;
mod calendar;
mod expectation;
mod json;
mod outcome;
mod play;
mod rules;
mod script;
mod words;

pub use beside::{Beside, Holding, OffBookRow};
pub use calendar::{date_text, day_of, time_text};
pub use json::Malformed;
pub use outcome::{Book, Closing, Happening, Outcome, Row, StepOutcome, TradeRow};
pub use play::{Machine, References, Witness, play, play_watched};
pub use rules::{Cell, Contracts};
pub use script::{Amendment, Answer, Entry, Expires, Funds, Report, Scenario, Setup, Step, read};
pub use words::{reason_of_leaving, type_word};
