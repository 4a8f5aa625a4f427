//! The transport to nobody: what is left of a splitter's cost when it hands nothing over.

use std::time::Duration;

use pitwire_feed::Object;

use crate::transport::{Transport, TransportSummary};
use crate::transport_error::TransportError;

/// Counts nothing, keeps nothing.
#[derive(Debug, Default)]
pub struct DiscardTransport;

impl Transport for DiscardTransport {
    fn deal(&mut self, _: &[u8], objects: &[Object]) {
        // The scan must not be optimised away.
        std::hint::black_box(objects);
    }

    fn note(&mut self, _: u32, _: &[u8]) {}

    fn hand_over(&mut self) {}

    fn finish(&mut self, _: Duration) -> Result<TransportSummary, TransportError> {
        Ok(TransportSummary::default())
    }
}
