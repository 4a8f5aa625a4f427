//! Texts of raw private notices, which the sessions of an account share.
//!
//! Does        writes the notice of an event on a channel once, however many sessions get it.
//! Holds       at most about [`MAX_BYTES`], while one part of an account's events is sent.
//! Start at    [`NoticeTexts::get`].

use std::collections::BTreeMap;

/// Most bytes of texts that are remembered.
const MAX_BYTES: usize = 1024 * 1024;

/// The texts of one part of an account's events, by place in the part and by channel.
#[derive(Debug, Default)]
pub struct NoticeTexts {
    texts: BTreeMap<usize, Vec<(String, Vec<u8>)>>,
    bytes: usize,
    /// Several sessions get the events.
    is_shared: bool,
}

impl NoticeTexts {
    /// Makes an empty set for a number of sessions.
    pub fn for_sessions(count: usize) -> NoticeTexts {
        NoticeTexts { is_shared: count > 1, ..NoticeTexts::default() }
    }

    /// Returns the text of an event on a channel. `write` makes it if it is not remembered.
    pub(crate) fn get(&mut self, event: usize, channel: &str, write: impl FnOnce() -> Vec<u8>) -> &[u8] {
        if !self.is_shared || self.bytes > MAX_BYTES {
            self.texts.clear();
            self.bytes = 0;
        }
        let texts = self.texts.entry(event).or_default();
        let at = texts.iter().position(|(name, _)| name == channel).unwrap_or_else(|| {
            let text = write();
            self.bytes += text.len();
            texts.push((channel.to_owned(), text));
            texts.len() - 1
        });
        &texts[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes three events on two channels to `sessions` sessions. Returns how often a text was
    /// written.
    fn written(sessions: usize, bytes: usize) -> usize {
        let (mut texts, mut written) = (NoticeTexts::for_sessions(sessions), 0);
        for _ in 0..sessions {
            for (event, channel) in [(0, "orders"), (0, "trades"), (1, "orders"), (2, "trades")] {
                let expected = format!("{event} {channel}");
                let text = texts.get(event, channel, || {
                    written += 1;
                    let mut text = expected.clone().into_bytes();
                    text.resize(text.len() + bytes, b' ');
                    text
                });
                assert!(text.starts_with(expected.as_bytes()));
            }
        }
        written
    }

    #[test]
    fn a_notice_is_written_once_for_all_sessions() {
        assert_eq!((written(1, 0), written(2, 0), written(1_000, 0)), (4, 4, 4));
    }

    #[test]
    fn texts_are_forgotten_above_their_limit() {
        let (mut texts, long) = (NoticeTexts::for_sessions(2), vec![b' '; MAX_BYTES / 4]);
        for event in 0..100 {
            texts.get(event, "orders", || long.clone());
            assert!(texts.bytes <= MAX_BYTES + long.len() && texts.texts.len() <= 6);
        }
        assert!(written(3, MAX_BYTES) > 4);
    }
}
