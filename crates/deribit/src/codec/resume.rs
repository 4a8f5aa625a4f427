//! Resume tokens: the position of a subscriber, and the messages that it gets when it returns. The
//! dialect does not have them.
//!
//! Holds       a client that sends no token sees none of this.
//! Start at    [`Token::parse`], [`write_resumption`].

use core::fmt;
use std::collections::BTreeMap;

use crate::codec::error::RpcError;
use crate::codec::json::Json;
use crate::codec::params::Params;

/// Most channels that one request may resume, because each costs a search through a ring or replay
/// buffer.
const MOST_RESUMED: usize = 100;

/// `EPOCH:NUMBER`, or `EPOCH:NUMBER.PART` where several messages share one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The start of the venue that issued it.
    pub epoch: u64,
    pub number: u64,
    pub part: u32,
}

impl Token {
    /// Parses a token. `None` for a text that no venue has issued.
    pub fn parse(text: &str) -> Option<Token> {
        let (epoch, place) = text.split_once(':')?;
        let (number, part) = match place.split_once('.') {
            Some((number, part)) => (number, u32::try_from(digits(part)?).ok()?),
            None => (place, 0),
        };
        Some(Token { epoch: digits(epoch)?, number: digits(number)?, part })
    }
}

/// Parses up to twenty digits without a sign.
fn digits(text: &str) -> Option<u64> {
    let is_plain = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.epoch, self.number)?;
        if self.part == 0 { Ok(()) } else { write!(out, ".{}", self.part) }
    }
}

/// Returns the channels of `names` that the caller wants to resume, each with its token if it has
/// one.
///
/// # Errors
/// A refusal if `resume` names more than [`MOST_RESUMED`] channels or a channel outside `names`, or
/// has a malformed token.
pub fn resumed(params: &Params<'_>, names: &[String]) -> Result<BTreeMap<String, Option<Token>>, RpcError> {
    let Some(wanted) = params.texts("resume")? else { return Ok(BTreeMap::new()) };
    if wanted.len() > MOST_RESUMED {
        let reason = format!("one request resumes at most {MOST_RESUMED} channels; send another for the rest");
        return Err(RpcError::param("too_many_requests", "resume", reason));
    }
    let shown = |text: &str| text.chars().take(80).collect::<String>();
    let mut resumed = BTreeMap::new();
    for (name, text) in wanted {
        if !names.contains(&name) {
            let reason = format!("{:?} is not among the channels of this request", shown(&name));
            return Err(RpcError::invalid("resume", reason));
        }
        let token = match &text {
            None => None,
            Some(text) => Some(Token::parse(text).ok_or_else(|| {
                let reason = format!(
                    "{:?} is not a token: expected EPOCH:NUMBER from pitwire_resume or a message, or null to begin",
                    shown(text)
                );
                RpcError::invalid("resume", reason)
            })?),
        };
        resumed.insert(name, token);
    }
    Ok(resumed)
}

/// How a returning subscriber was caught up before its first new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUpSource {
    /// Exactly the messages that it missed, in order.
    Messages,
    /// The changes since then, from the venue's history.
    History(ResumeReason),
    /// The whole state, as for a new subscriber.
    Snapshot(ResumeReason),
    /// Nothing: it gets new messages only.
    Nothing(ResumeReason),
}

/// Why a subscriber could not simply continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeReason {
    /// It sent no token.
    New,
    /// The venue has restarted since.
    OtherEpoch,
    /// The messages that followed have been dropped.
    TooOld,
    /// The channel has never had this number.
    Unknown,
    /// The request would fetch more than it may.
    TooMuch,
    /// The messages of this channel have no numbers: each is a whole state, or belongs to no
    /// account.
    NotNumbered,
    /// The connection has this channel already.
    AlreadySubscribed,
}

impl ResumeReason {
    pub const fn name(self) -> &'static str {
        match self {
            ResumeReason::New => "new",
            ResumeReason::OtherEpoch => "other_epoch",
            ResumeReason::TooOld => "too_old",
            ResumeReason::Unknown => "unknown",
            ResumeReason::TooMuch => "too_much",
            ResumeReason::NotNumbered => "not_numbered",
            ResumeReason::AlreadySubscribed => "already_subscribed",
        }
    }
}

/// Tells a subscriber how it was caught up and where it stands now.
pub fn write_resumption(out: &mut Vec<u8>, channel: &str, caught_up: CatchUpSource, token: Option<Token>) {
    let (by, why) = match caught_up {
        CatchUpSource::Messages => ("messages", None),
        CatchUpSource::History(why) => ("history", Some(why)),
        CatchUpSource::Snapshot(why) => ("snapshot", Some(why)),
        CatchUpSource::Nothing(why) => ("nothing", Some(why)),
    };
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("pitwire_resume");
        j.key("params").object(|j| {
            j.key("channel").string(channel).key("resumed").bool(why.is_none()).key("by").string(by);
            if let Some(why) = why {
                j.key("reason").string(why.name());
            }
            if let Some(token) = token {
                j.key("token").string(&token.to_string());
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::numbered_notification;

    #[test]
    fn only_issued_tokens_are_parsed() {
        for (text, token) in [
            ("3:17", Token { epoch: 3, number: 17, part: 0 }),
            ("3:1795219359707000000.12", Token { epoch: 3, number: 1_795_219_359_707_000_000, part: 12 }),
            ("18446744073709551615:0", Token { epoch: u64::MAX, number: 0, part: 0 }),
        ] {
            assert_eq!(Token::parse(text), Some(token));
            assert_eq!(token.to_string(), text);
        }
        for text in [
            "",
            ":",
            "3",
            "3:",
            ":17",
            "3:-1",
            "+3:1",
            "3:1.",
            "3:.1",
            "3:1.4294967296",
            "3:1:2",
            "3:1.2.3",
            " 3:1",
            "3:1\n",
            "18446744073709551616:1",
            "3:000000000000000000001",
            "３:1",
        ] {
            assert_eq!(Token::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_notice_says_how_and_where() {
        let mut out = Vec::new();
        let token = Token { epoch: 2, number: 9, part: 0 };
        write_resumption(&mut out, "book.X.raw", CatchUpSource::Snapshot(ResumeReason::TooOld), Some(token));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"jsonrpc":"2.0","method":"pitwire_resume","params":{"channel":"book.X.raw","resumed":false,"by":"snapshot","reason":"too_old","token":"2:9"}}"#
        );
        let numbered = numbered_notification("c", Some(token), |j| j.uint(1).end());
        assert_eq!(
            String::from_utf8(numbered).unwrap(),
            r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":"c","data":1,"token":"2:9"}}"#
        );
    }
}
