//! Which rule decided, and with which numbers: of a refusal, an expiry, an uncross, an order that rests.
//!
//! Does        follow a log ([`Explainer::observe`]) and note what concerns one question; [`Explainer::finish`] adds how
//!             things stand at its end.
//! Holds       1. what it says comes from commands and events alone: the engine is never asked;
//!             2. a member is told the same with and without others' hidden orders that meet nobody.
//! Leaves out  judging: an auditor does that; funds, of which it says what an order needed and not what there was.
//! Start at    [`Explainer`], then `venue_view`, `refusal`, `cancellation`, `uncross` and `open_order`.

mod cancellation;
mod explainer;
mod note;
mod open_order;
mod refusal;
mod restore;
mod skipped_orders;
mod trade_reports;
mod uncross;
mod venue_view;
mod viewer;

pub use explainer::{Explainer, Question};
pub use note::Note;
pub use viewer::Viewer;
