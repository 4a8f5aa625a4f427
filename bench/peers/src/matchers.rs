//! Our own book as `pitwire engine-bench --mode book` runs it: the same source.

use crate::operations::Operation;
use crate::reports::Reports;
pub(crate) use crate::{operations, reports};

pub trait Matcher {
    #[allow(dead_code, reason = "the shared source has it; here nothing is known before its turn, as with the others")]
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>);
    fn apply(&mut self, seq: u32, operation: &Operation, reports: &mut Reports);
    #[allow(dead_code, reason = "the shared source has it; nothing asks here")]
    fn live(&self) -> usize;
}

#[path = "../../../crates/pitwire/src/commands/engine_bench/book.rs"]
#[allow(dead_code)]
pub mod book;
