//! The interface that the bare book and the whole engine share, so that one loop times both.

use super::operations::Operation;
use super::reports::Reports;

/// A book or an engine that takes one operation at a time and writes reports into a buffer.
pub trait Matcher {
    /// Prefetches memory for later operations. `coming(n)` is the operation `n` places behind the
    /// next one.
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>);
    /// Applies one operation.
    fn apply(&mut self, seq: u32, operation: &Operation, reports: &mut Reports);
    /// Returns the number of resting orders.
    fn live(&self) -> usize;
}
