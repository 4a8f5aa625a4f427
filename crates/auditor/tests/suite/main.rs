//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../correct_run/mod.rs"]
mod correct_run;
#[path = "../script/mod.rs"]
mod script;

mod offences;
mod planted;
mod rules;
mod terms;
