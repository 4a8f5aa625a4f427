//! The snapshot service of a feed of ITCH: GLIMPSE over the recovery port.
//!
//! Holds       a connection has one login and one snapshot, within the limits of the recovery port.
//!             A login that names another session, or is above a limit, is rejected.
//! Start at    [`take_login`] and [`rejection`].

use std::io;

use pitwire_order_feed::{GlimpseLogin, GlimpsePacket, SESSION_NOT_AVAILABLE};

use crate::served_client::{Answer, invalid};

/// Takes a login off the front of received bytes. `None` if it is not complete.
///
/// # Errors
///
/// Fails if the bytes do not begin with a login.
pub(crate) fn take_login(input: &mut Vec<u8>) -> io::Result<Option<GlimpseLogin>> {
    let header = GlimpseLogin::HEADER;
    if input.len() >= header.len() && !input.starts_with(&header) {
        return Err(invalid("expected a Login Request of SoupBinTCP with 49 bytes".into()));
    }
    let login = input.first_chunk().and_then(GlimpseLogin::read);
    if login.is_some() {
        input.drain(..GlimpseLogin::BYTES);
    }
    Ok(login)
}

/// Returns the answer to a login that is rejected.
pub(crate) fn rejection() -> Answer {
    let mut packet = Vec::new();
    GlimpsePacket::LoginRejected { reason: SESSION_NOT_AVAILABLE }.encode(&mut packet);
    Answer::message(packet)
}
