//! Events from the venue to the relay.

use serde_json::value::RawValue;

/// What arrives from the venue.
pub(crate) enum FeedEvent {
    /// A message of a channel.
    Update { channel: usize, data: Box<RawValue> },
    /// Messages of a channel may be missing before its next one.
    Gap { channel: usize, reason: String },
    /// The venue serves the relay no longer.
    Ended { reason: String },
}
