//! Channels that a subscription leaves out, and why.

use crate::codec::channel::Channel;

/// Most channels that `data.ignored` names.
const MOST_IGNORED: usize = 20;
/// Most characters of a channel name that an answer shows.
const MOST_SHOWN: usize = 80;

/// Returns the part of a name that answers show.
pub fn shown(name: &str) -> String {
    name.chars().take(MOST_SHOWN).collect()
}

/// A channel that a subscription left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredChannel {
    pub name: String,
    pub reason: String,
}

/// The channels that one request left out. Further ones than the first 20 are not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredChannels(Vec<IgnoredChannel>);

impl IgnoredChannels {
    /// Adds a channel with the reason that `reason` returns.
    pub fn add(&mut self, name: &str, reason: impl FnOnce() -> String) {
        if self.0.len() < MOST_IGNORED {
            self.0.push(IgnoredChannel { name: shown(name), reason: reason() });
        }
    }

    pub fn as_slice(&self) -> &[IgnoredChannel] {
        &self.0
    }

    /// Returns the reason of a channel, if it is named.
    pub fn reason_of(&self, name: &str) -> Option<&str> {
        let name = shown(name);
        self.0.iter().find(|ignored| ignored.name == name).map(|ignored| ignored.reason.as_str())
    }
}

/// Returns the served channel whose name differs from this one in its case only. `words` are the
/// names of instruments and currencies.
pub fn in_right_case<'w>(
    name: &str,
    words: impl Iterator<Item = &'w str> + Clone,
    is_served: impl Fn(&str) -> bool,
) -> Option<String> {
    let part = |(place, part): (usize, &str)| {
        let is_part = |known: &&str| known.eq_ignore_ascii_case(part);
        let known = words.clone().chain(["1D"]).find(is_part).filter(|_| place > 0);
        known.map_or_else(|| part.to_ascii_lowercase(), str::to_owned)
    };
    let corrected = name.split('.').enumerate().map(part).collect::<Vec<_>>().join(".");
    (corrected != name && is_served(&corrected)).then_some(corrected)
}

/// Returns why a channel is left out. `corrected` is the result of [`in_right_case`].
pub fn why_ignored(name: &str, corrected: Option<String>, has_instrument: impl Fn(&str) -> bool) -> String {
    if let Some(corrected) = corrected {
        return format!("names are case-sensitive: {corrected}");
    }
    let Some(channel) = Channel::parse(name) else {
        return match Channel::is_known_family(name) {
            true => "this version does not serve this channel; docs/dialect.md lists those that it serves".into(),
            false => "no channel has this form; docs/dialect.md lists the channels and their intervals".into(),
        };
    };
    match channel.instrument() {
        Some(instrument) if !has_instrument(instrument) => {
            format!("no instrument is named {:?}; public/get_instruments lists them", shown(instrument))
        }
        _ => "the kind, currency, index or account in this name does not exist here".into(),
    }
}
