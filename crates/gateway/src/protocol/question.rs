//! A gateway's signed questions to its venue over HTTP.
//!
//! The header is `Authorization: pitwire-bus <ms since 1970> <nonce, 32 hex digits> <MAC, 64>`. The
//! MAC's purpose is `question`. Its content is method, target, time, nonce and body, each but the
//! last followed by a line feed. Answers are sealed for the purpose `answer <nonce>`, so that an
//! old answer fits no new question.

use crate::protocol::key::BusKey;

/// Largest accepted difference between the two clocks, in milliseconds.
pub const SKEW_MS: u64 = 60_000;

const SCHEME: &str = "pitwire-bus";

/// One request, as both sides see it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub body: &'a [u8],
}

/// Why a question is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionRefusal {
    Unsigned,
    /// The key differs, or the request was changed on the way.
    WrongMac,
    /// The time differs by more than [`SKEW_MS`].
    WrongTime,
}

impl QuestionRefusal {
    pub fn reason(self) -> &'static str {
        match self {
            QuestionRefusal::Unsigned => "sign the request with the bus key",
            QuestionRefusal::WrongMac => "the request is not signed with this venue's bus key",
            QuestionRefusal::WrongTime => "the request's time is more than 60 s away: set both machines' clocks",
        }
    }
}

impl Question<'_> {
    fn content(&self, at_ms: u64, nonce: &str) -> Vec<u8> {
        let mut content = format!("{}\n{}\n{at_ms}\n{nonce}\n", self.method, self.target).into_bytes();
        content.extend_from_slice(self.body);
        content
    }

    /// Returns the header's value, and the purpose for which the answer must be sealed.
    pub fn sign(&self, key: &BusKey, now_ms: u64, nonce: [u8; 16]) -> (String, String) {
        let nonce = hex::encode(nonce);
        let mac = key.mac("question", &self.content(now_ms, &nonce));
        (format!("{SCHEME} {now_ms} {nonce} {}", mac.to_hex()), purpose(&nonce))
    }

    /// Checks a request. Returns the purpose for which to seal the answer.
    ///
    /// # Errors
    ///
    /// The header is missing or malformed, or the MAC or the time is wrong.
    pub fn check(&self, key: &BusKey, header: Option<&str>, now_ms: u64) -> Result<String, QuestionRefusal> {
        let header = header.ok_or(QuestionRefusal::Unsigned)?;
        let fields: Vec<&str> = header.split_ascii_whitespace().collect();
        let [SCHEME, at_ms, nonce, mac] = fields[..] else { return Err(QuestionRefusal::Unsigned) };
        let at_ms: u64 = at_ms.parse().map_err(|_| QuestionRefusal::Unsigned)?;
        let given: [u8; 32] =
            hex::decode(mac).ok().and_then(|mac| mac.try_into().ok()).ok_or(QuestionRefusal::Unsigned)?;
        if nonce.len() != 32 {
            return Err(QuestionRefusal::Unsigned);
        }
        if key.mac("question", &self.content(at_ms, nonce)) != blake3::Hash::from_bytes(given) {
            return Err(QuestionRefusal::WrongMac);
        }
        if at_ms.abs_diff(now_ms) > SKEW_MS {
            return Err(QuestionRefusal::WrongTime);
        }
        Ok(purpose(nonce))
    }
}

fn purpose(nonce: &str) -> String {
    format!("answer {nonce}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_is_valid_only_unchanged_and_in_time() {
        let (key, other) = (BusKey::new([1; 32]), BusKey::new([2; 32]));
        let question = Question { method: "POST", target: "/bus/keep?x=1", body: b"a\nb" };
        let (header, purpose) = question.sign(&key, 1_000_000, [3; 16]);
        let check = |question: Question<'_>, key: &BusKey, header: &str, now| question.check(key, Some(header), now);
        assert_eq!(check(question, &key, &header, 1_000_000 + SKEW_MS).as_ref(), Ok(&purpose));
        assert_eq!(check(question, &key, &header, 1_000_001 + SKEW_MS), Err(QuestionRefusal::WrongTime));
        assert_eq!(check(question, &key, &header, 939_999), Err(QuestionRefusal::WrongTime));
        assert_eq!(check(question, &other, &header, 1_000_000), Err(QuestionRefusal::WrongMac));
        for changed in [
            Question { method: "GET", ..question },
            Question { target: "/bus/keep?x=2", ..question },
            Question { body: b"a\nc", ..question },
        ] {
            assert_eq!(check(changed, &key, &header, 1_000_000), Err(QuestionRefusal::WrongMac), "{changed:?}");
        }
        let later = header.replace("1000000", "1000001");
        assert_eq!(check(question, &key, &later, 1_000_000), Err(QuestionRefusal::WrongMac));
        for broken in ["", "Bearer x", "pitwire-bus 1 2 3", "pitwire-bus x 2 3 4"] {
            assert_eq!(check(question, &key, broken, 1_000_000), Err(QuestionRefusal::Unsigned), "{broken}");
        }
        assert_eq!(question.check(&key, None, 1_000_000), Err(QuestionRefusal::Unsigned));
    }
}
