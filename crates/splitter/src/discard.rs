//! A transport that discards everything, to measure scanning and routing alone.

use std::time::Duration;

use pitwire_feed::Object;

use crate::transport::{Transport, TransportSummary};
use crate::transport_error::TransportError;

/// Discards all objects.
#[derive(Debug, Default)]
pub struct DiscardTransport;

impl Transport for DiscardTransport {
    fn send_objects(&mut self, _: &[u8], objects: &[Object]) {
        // Keeps the compiler from removing the scan.
        std::hint::black_box(objects);
    }

    fn send_note(&mut self, _: u32, _: &[u8]) {}

    fn hand_over(&mut self) {}

    fn finish(&mut self, _: Duration) -> Result<TransportSummary, TransportError> {
        Ok(TransportSummary::default())
    }
}
