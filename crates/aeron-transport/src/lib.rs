//! Byte streams of a server over Aeron: IPC and UDP.
//!
//! Does        receive the bytes of each client's publication, and publish the answers on a stream
//!             with the session id of the client. Without the feature `aeron` it refuses.
//! Holds       1. the bytes of a stream stay in order, and none is lost while it lives;
//!             2. a client that does not read, or floods, stops its own stream only;
//!             3. nothing here waits, once the transport is open;
//!             4. without a media driver the server goes on, and only its streams end.
//! Leaves out  the media driver, which is a separate process, and the messages: `sbe-gateway`.
//! Start at    [`open`]; `docs/aeron.md` describes the channels.

mod channels;
#[cfg(feature = "aeron")]
mod transport;

use pitwire_failure::Failure;
use pitwire_net::MessageTransport;

pub use crate::channels::AeronChannels;

/// Connects to the media driver in `directory`, or in Aeron's own one, and receives requests.
///
/// # Errors
/// Fails if the media driver does not answer, if a channel is not valid, or if the program was
/// built without Aeron.
#[cfg(feature = "aeron")]
pub fn open(channels: &[AeronChannels], directory: Option<&str>) -> Result<Box<dyn MessageTransport>, Failure> {
    Ok(Box::new(transport::AeronTransport::open(channels, directory)?))
}

/// Refuses, because the program was built without Aeron.
///
/// # Errors
/// Always fails.
#[cfg(not(feature = "aeron"))]
pub fn open(_: &[AeronChannels], _: Option<&str>) -> Result<Box<dyn MessageTransport>, Failure> {
    Err(Failure::usage("this program was built without Aeron, so it cannot serve --sbe-aeron")
        .remedy("run `make aeron` and start target/release/pitwire-aeron"))
}

#[cfg(all(test, not(feature = "aeron")))]
mod tests {
    use super::*;

    #[test]
    fn program_without_aeron_names_the_remedy() {
        let channels = AeronChannels::parse("aeron:ipc,aeron:ipc").unwrap();
        assert!(open(&[channels], None).err().unwrap().to_string().contains("make aeron"));
    }
}
