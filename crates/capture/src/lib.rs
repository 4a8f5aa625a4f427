//! Decodes captures of network traffic: packets, TCP streams, and our binary messages in them.
//!
//! Does        read pcap and pcapng, find UDP datagrams and TCP segments in the packets, put the
//!             segments in order, and decode the order feed and binary order entry. A message is
//!             recognized by its bytes, so no port has to be named.
//! Holds       1. any input gives messages, counts or an error, never a panic;
//!             2. a packet without our messages, a cut packet and missing TCP bytes are counted;
//!             3. streams, reordered segments and names have bounds; the rest is constant memory.
//! Leaves out  IP fragments, which are counted: our datagrams fit one frame.
//! Start at    [`decode`].

#![warn(clippy::missing_errors_doc)]

mod decoder;
mod message;
mod packets;
mod reader;
mod streams;

pub use decoder::{CaptureCounts, decode};
pub use message::{CapturedMessage, WireProtocol};
pub use reader::CaptureError;
