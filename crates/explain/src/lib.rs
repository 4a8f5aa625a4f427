//! Explains which rule decided a refusal, an expiry, an uncross or the position of an order, and
//! with which numbers.
//!
//! Does        follow a log ([`Explainer::observe`]) and collect notes for one question.
//!             [`Explainer::finish`] adds the state at the end.
//! Holds       1. every note is derived from commands and events, without the engine;
//!             2. hidden orders of other members that do not trade do not change a member's notes.
//! Leaves out  checking, which the auditor does, and balances. A note gives the funds that an order
//!             needed, not the funds that the account had.
//! Start at    [`Explainer`], then `venue_view`, `refusal`, `cancellation`, `uncross` and
//!             `open_order`.

mod cancellation;
mod explainer;
mod note;
mod open_order;
mod refusal;
mod restore;
mod skipped_orders;
mod text_style;
mod trade_reports;
mod uncross;
mod venue_view;
mod view_text;
mod viewer;

pub use explainer::{Explainer, Question};
pub use note::Note;
pub use text_style::{TextStyle, UtcOffset};
pub use viewer::Viewer;
