//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;
#[path = "../market/mod.rs"]
mod market;

mod channels;
mod lifelines;
mod limits;
mod long_answers;
mod methods;
mod needed;
mod operator;
mod orders;
mod portfolio;
mod public_channels;
mod public_leak;
mod public_merged;
mod public_resume;
mod public_sessions;
mod public_states;
mod reports;
mod resume;
mod revocation;
mod rulebook;
mod scopes;
mod sessions;
mod terms;
mod texts;
mod typed;
