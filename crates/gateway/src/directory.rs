//! Instruments of the venue: which channel names can exist, and which streams URLs name.

use std::collections::BTreeSet;

use pitwire_deribit::codec::{Channel, Interval, RpcError, in_right_case, why_ignored};
use pitwire_url_streams::{Directory, StreamConnection, StreamKey, StreamRefusal, StreamSession};
use pitwire_websocket::head::split_target;

use crate::STREAM;

/// Classification of a channel name.
pub(crate) enum ChannelName {
    Served,
    /// The name is valid but no such channel exists.
    Unavailable,
    Malformed,
}

#[derive(Default)]
pub(crate) struct InstrumentDirectory {
    /// Instruments in the form that URL streams use.
    pub streams: Directory,
    names: BTreeSet<String>,
    /// The venue has sent its instruments.
    pub is_known: bool,
}

impl InstrumentDirectory {
    pub fn set(&mut self, names: &[String]) {
        self.streams = Directory::named(names.iter().map(String::as_str));
        self.names = names.iter().cloned().collect();
        self.is_known = true;
    }

    /// Classifies a public channel name.
    ///
    /// # Errors
    ///
    /// A raw channel needs a login. `private` returns the error for a private channel.
    pub fn classify(
        &self,
        name: &str,
        is_logged_in: bool,
        private: impl FnOnce(&str) -> RpcError,
    ) -> Result<ChannelName, RpcError> {
        let Some(channel) = Channel::parse(name) else {
            return Ok(if Channel::is_known_family(name) { ChannelName::Unavailable } else { ChannelName::Malformed });
        };
        if channel.is_private() || matches!(channel, Channel::DropCopy { .. }) {
            return Err(private(name));
        }
        // The venue need not be asked for an instrument that it does not have.
        if self.is_known && channel.instrument().is_some_and(|name| !self.names.contains(name)) {
            return Ok(ChannelName::Unavailable);
        }
        if channel.interval() == Interval::Raw && !is_logged_in {
            return Err(RpcError::param("raw_requires_login", "channels", format!("{name} needs a login")));
        }
        Ok(ChannelName::Served)
    }

    /// Returns why a channel is left out of a subscription. The names of currencies are parts of
    /// instrument names.
    pub fn why_ignored(&self, name: &str) -> String {
        let instruments = self.names.iter().map(String::as_str);
        let words = instruments.clone().chain(instruments.flat_map(|name| name.split(['_', '-'])));
        let corrected = in_right_case(name, words, |name| {
            let classified = self.classify(name, true, |_| RpcError::new("authorization_required", "log in first"));
            matches!(classified, Ok(ChannelName::Served))
        });
        why_ignored(name, corrected, |instrument| !self.is_known || self.names.contains(instrument))
    }

    /// Returns why a handshake with this target is refused, if it is.
    pub fn refusal(&self, target: &str) -> Option<StreamRefusal> {
        let (path, query) = split_target(target);
        if !pitwire_url_streams::is_stream_path(path) {
            return None;
        }
        self.read_url(path, query)?.err()
    }

    /// Parses the subscriptions in a URL. Returns `None` if it names no stream.
    pub fn read_url(&self, path: &str, query: &str) -> Option<Result<StreamConnection, StreamRefusal>> {
        StreamSession::open(path, query, &self.streams)
    }

    /// Returns the name of the bus channel that carries a stream.
    pub fn channel_of(&self, key: &StreamKey) -> String {
        let key = key.under_its_own_numbers();
        format!("{STREAM}{}", key.label(key.instrument.and_then(|of| self.streams.names(of))))
    }
}
