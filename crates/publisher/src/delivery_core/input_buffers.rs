//! State that the handling of client input shares between connections.
//!
//! Start at    [`InputBuffers`].

use std::sync::Arc;

use pitwire_net::OriginPolicy;
use pitwire_websocket::Decoder;

use crate::handler::Reply;

/// Most spare decoders that are rest for reuse.
pub const SPARES: usize = 64;

/// Buffers for the handling of client input.
pub struct InputBuffers {
    pub origins: Arc<OriginPolicy>,
    /// Decoders between two messages, which any connection may use.
    pub decoders: Vec<Decoder>,
    /// Buffer for the reaction of the handler.
    pub reply: Reply,
}

impl InputBuffers {
    pub fn new(origins: OriginPolicy) -> Self {
        InputBuffers { origins: Arc::new(origins), decoders: Vec::new(), reply: Reply::default() }
    }
}
