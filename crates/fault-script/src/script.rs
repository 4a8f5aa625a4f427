//! The rules of a script, and their choice of messages.
//!
//! Start at    [`FaultScript`].

use std::fmt;
use std::time::Duration;

use pitwire_random::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::kind::{FaultKind, Injector};

/// Longest delay of a message, in milliseconds.
const MOST_MS: u64 = 3_600_000;
/// Default longest wait of a reordered message, in milliseconds.
const REORDER_MS: u64 = 50;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    FromClient,
    /// From the venue behind a relay, or from the feed.
    FromVenue,
}

/// The rules of a script. The default has none.
#[derive(Clone, Debug, Default)]
pub struct FaultScript {
    injector: Injector,
    seed: u64,
    lasts: Option<Duration>,
    rules: Vec<FaultRule>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FaultRule {
    kind: FaultKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    at: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasts_ms: Option<u64>,
    #[serde(default)]
    fault: Vec<FaultRule>,
}

/// Identifies a message. Number 0 stands for the connection.
#[derive(Clone, Copy, Debug)]
pub struct MessagePlace {
    /// Connections are counted from 1.
    pub connection: u64,
    pub direction: Direction,
    /// Messages of one direction of a connection are counted from 1.
    pub message: u64,
}

/// A fault of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Length of a delay or stall, and longest wait of a reordered message.
    pub duration: Duration,
    /// Messages that overtake a reordered one.
    pub messages: u64,
}

impl FaultScript {
    /// Parses a script for a program. `seed` applies if the script has none.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key or kind, or a rule that the program cannot apply.
    pub fn parse(injector: Injector, text: &str, seed: u64) -> Result<Self, String> {
        let file: ScriptFile = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        for (number, rule) in file.fault.iter().enumerate() {
            rule.check(injector).map_err(|what| format!("fault {} ({}): {what}", number + 1, rule.kind.name()))?;
        }
        if injector == Injector::Feed && file.lasts_ms.is_some() {
            return Err("lasts_ms applies only to pitwire relay: name the last message by to".into());
        }
        let lasts = file.lasts_ms.map(Duration::from_millis);
        Ok(FaultScript { injector, seed: file.seed.unwrap_or(seed), lasts, rules: file.fault })
    }

    /// Makes a script for a relay from a seed: one to five rules, each with a random share of the
    /// messages.
    pub fn random(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut kinds = Injector::Relay.kinds().to_vec();
        let count = random.between(1, 5);
        let rules = (0..count).map(|_| {
            let kind = kinds.remove(random.index(kinds.len()));
            FaultRule::random(kind, &mut random)
        });
        let rules = rules.collect();
        FaultScript { injector: Injector::Relay, seed, lasts: None, rules }
    }

    /// Sets the time after which messages pass without faults, counted from the start of the proxy.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.lasts = Some(duration);
        self
    }

    pub fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// Returns the fault of a message: that of the first rule that applies.
    pub fn find(&self, place: MessagePlace) -> Option<Fault> {
        let is_chosen = |rule: &FaultRule, number: u64| {
            rule.kind != FaultKind::Refuse
                && rule.direction.is_none_or(|only| only == place.direction)
                && rule.connection.is_none_or(|only| only == place.connection)
                && rule.selects(place.message, || self.draw(number, place).0)
        };
        let (rule, number) = self.rules.iter().zip(0_u64..).find(|(rule, number)| is_chosen(rule, *number))?;
        let shortest = rule.ms.unwrap_or(REORDER_MS);
        let more = self.draw(number, place).1 % (rule.max_ms.unwrap_or(shortest) - shortest + 1);
        let duration = Duration::from_millis(shortest + more);
        Some(Fault { kind: rule.kind, duration, messages: rule.messages.unwrap_or(1) })
    }

    /// Returns whether a connection is refused.
    pub fn refuses(&self, connection: u64) -> bool {
        let place = MessagePlace { connection, direction: Direction::FromClient, message: 0 };
        self.rules.iter().zip(0_u64..).any(|(rule, number)| {
            rule.kind == FaultKind::Refuse && rule.selects(connection, || self.draw(number, place).0)
        })
    }

    /// Draws a number from 0 to 1 and a whole number, for a rule and a message. All connections of
    /// a feed have the same faults. Each direction of each connection of a relay has its own.
    #[allow(clippy::cast_precision_loss)] // 53 bits are kept.
    fn draw(&self, rule: u64, place: MessagePlace) -> (f64, u64) {
        let state = match self.injector {
            Injector::Feed => self.seed ^ rule.rotate_left(48) ^ place.message,
            Injector::Relay => [rule, place.connection, place.message * 2 + place.direction as u64]
                .into_iter()
                .fold(self.seed, |state, part| SplitMix64::new(state ^ part).next()),
        };
        let mut random = SplitMix64::new(state);
        ((random.next() >> 11) as f64 / (1_u64 << 53) as f64, random.next())
    }
}

impl fmt::Display for FaultScript {
    /// Writes the script as TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts_ms = self.lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let file = ScriptFile { seed: Some(self.seed), lasts_ms, fault: self.rules.clone() };
        f.write_str(&toml::to_string(&file).map_err(|_| fmt::Error)?)
    }
}

impl FaultRule {
    fn random(kind: FaultKind, random: &mut SplitMix64) -> Self {
        let (most_per_mille, ms, max_ms, messages) = match kind {
            FaultKind::Delay => {
                let ms = random.between(1, 20);
                (200, Some(ms), Some(ms + random.below(100)), None)
            }
            FaultKind::Reorder => (100, None, None, Some(random.between(1, 3))),
            FaultKind::Drop | FaultKind::Duplicate => (100, None, None, None),
            FaultKind::Cut | FaultKind::Reset | FaultKind::Close => (30, None, None, None),
            FaultKind::Silence => (5, None, None, None),
            // Only `refuse` is left of the faults of a relay.
            _ => (500, None, None, None),
        };
        #[allow(clippy::cast_precision_loss)] // At most 500.
        let share = Some(random.between(1, most_per_mille) as f64 / 1000.0);
        let direction = match random.below(3) {
            0 if kind != FaultKind::Refuse => Some(Direction::FromClient),
            1 if kind != FaultKind::Refuse => Some(Direction::FromVenue),
            _ => None,
        };
        FaultRule {
            kind,
            at: Vec::new(),
            share,
            from: None,
            to: None,
            direction,
            connection: None,
            ms,
            max_ms,
            messages,
        }
    }

    /// Checks that the parts of the rule fit together and that the program can apply it.
    fn check(&self, injector: Injector) -> Result<(), String> {
        if !injector.kinds().contains(&self.kind) {
            let names: Vec<_> = injector.kinds().iter().map(|kind| kind.name()).collect();
            return Err(format!("this program injects no such fault: expected one of {}", names.join(", ")));
        }
        if injector == Injector::Feed && self.direction.is_some() {
            return Err("direction applies only to pitwire relay: a feed sends in one direction".into());
        }
        match self.share {
            Some(_) if !self.at.is_empty() => return Err("give either at or share, not both".into()),
            None if self.at.is_empty() => return Err("give at (a list of message numbers) or share".into()),
            Some(share) if !(0.0..=1.0).contains(&share) => {
                return Err(format!("share {share}: expected a number from 0 to 1"));
            }
            _ => {}
        }
        if self.at.contains(&0) {
            return Err("at has the number 0: messages and connections are counted from 1".into());
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(format!("from {from} is above to {to}, so the rule selects nothing: exchange them"));
        }
        match (self.kind, self.ms, self.max_ms) {
            (FaultKind::Delay | FaultKind::Stall, None, _) => return Err("ms is missing: expected milliseconds".into()),
            (FaultKind::Delay | FaultKind::Stall | FaultKind::Reorder, ms, max_ms) => {
                let (ms, max_ms) = (ms.unwrap_or(REORDER_MS), max_ms.or(ms).unwrap_or(REORDER_MS));
                if max_ms < ms.max(1) || max_ms > MOST_MS {
                    return Err(format!("ms {ms}, max_ms {max_ms}: expected max_ms above 0, from ms to {MOST_MS}"));
                }
            }
            (_, None, None) => {}
            _ => return Err("ms and max_ms apply only to delay, stall and reorder".into()),
        }
        match self.messages {
            Some(_) if self.kind != FaultKind::Reorder => return Err("messages applies only to reorder".into()),
            Some(0) => return Err("messages 0: expected how many messages overtake it".into()),
            _ => {}
        }
        if self.kind == FaultKind::Refuse && (self.direction.is_some() || self.connection.is_some()) {
            return Err("a refused connection has no direction; name its number by at, from and to".into());
        }
        Ok(())
    }

    /// Returns whether the rule selects a message, or for [`FaultKind::Refuse`] a connection, by
    /// its number.
    fn selects(&self, number: u64, draw: impl FnOnce() -> f64) -> bool {
        let is_in_range = self.from.is_none_or(|from| number >= from) && self.to.is_none_or(|to| number <= to);
        is_in_range && self.share.map_or_else(|| self.at.contains(&number), |share| draw() < share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(script: &FaultScript, connection: u64, direction: Direction, last: u64) -> Vec<(u64, FaultKind)> {
        let find = |message| Some((message, script.find(MessagePlace { connection, direction, message })?.kind));
        (1..=last).filter_map(find).collect()
    }

    #[test]
    fn listed_messages_are_selected_and_the_first_rule_applies() {
        let text = "[[fault]]\nkind = \"drop\"\nat = [3, 5]\n\
                    [[fault]]\nkind = \"cut\"\nat = [5, 6]\nconnection = 2\n\
                    [[fault]]\nkind = \"delay\"\nat = [1]\nms = 7\ndirection = \"from-client\"\n";
        let script = FaultScript::parse(Injector::Relay, text, 1).unwrap();
        let (client, venue) = (Direction::FromClient, Direction::FromVenue);
        let both = [(3, FaultKind::Drop), (5, FaultKind::Drop)];
        assert_eq!(kinds(&script, 1, venue, 9), both);
        assert_eq!(kinds(&script, 2, venue, 9), [both[0], both[1], (6, FaultKind::Cut)]);
        assert_eq!(kinds(&script, 1, client, 9), [(1, FaultKind::Delay), both[0], both[1]]);
        let fault = script.find(MessagePlace { connection: 1, direction: client, message: 1 }).unwrap();
        assert_eq!(fault.duration, Duration::from_millis(7));
    }

    #[test]
    fn share_selects_about_that_many_and_by_connection_and_direction() {
        let text = "seed = 4\n[[fault]]\nkind = \"duplicate\"\nshare = 0.01\nfrom = 1001\nto = 101000\n";
        let script = FaultScript::parse(Injector::Relay, text, 1).unwrap();
        let found = kinds(&script, 1, Direction::FromVenue, 200_000);
        // Mean 1,000, standard deviation 31.
        assert!((850..=1_150).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|(number, _)| (1_001..=101_000).contains(number)));
        assert_eq!(found, kinds(&script, 1, Direction::FromVenue, 200_000));
        assert_ne!(found, kinds(&script, 1, Direction::FromClient, 200_000));
        assert_ne!(found, kinds(&script, 2, Direction::FromVenue, 200_000));
        let other = FaultScript::parse(Injector::Relay, &text.replace("seed = 4", "seed = 5"), 1).unwrap();
        assert_ne!(found, kinds(&other, 1, Direction::FromVenue, 200_000));
    }

    #[test]
    fn delays_are_drawn_between_their_bounds() {
        let text = "[[fault]]\nkind = \"delay\"\nshare = 1.0\nms = 10\nmax_ms = 12\n";
        let script = FaultScript::parse(Injector::Relay, text, 1).unwrap();
        let place = |message| MessagePlace { connection: 1, direction: Direction::FromVenue, message };
        let mut counts = [0; 3];
        for message in 1..=3000 {
            let ms = script.find(place(message)).unwrap().duration.as_millis();
            counts[usize::try_from(ms - 10).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn refusal_selects_connections_and_no_message() {
        let script = FaultScript::parse(Injector::Relay, "[[fault]]\nkind = \"refuse\"\nat = [2, 3]\n", 1).unwrap();
        assert_eq!((1..=5).filter(|connection| script.refuses(*connection)).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(kinds(&script, 2, Direction::FromClient, 9), []);
    }

    #[test]
    fn random_script_is_the_same_after_it_was_written_and_read() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let script = FaultScript::random(seed);
            let read = FaultScript::parse(Injector::Relay, &script.to_string(), 99).unwrap();
            assert_eq!(script.to_string(), read.to_string());
            assert!(!script.rules.is_empty());
            seen.extend(script.rules.iter().map(|rule| rule.kind));
            for direction in [Direction::FromClient, Direction::FromVenue] {
                assert_eq!(kinds(&script, 1, direction, 500), kinds(&read, 1, direction, 500));
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), Injector::Relay.kinds());
    }

    #[test]
    fn all_connections_of_a_feed_have_the_same_faults() {
        let text = "seed = 4\n[[fault]]\nkind = \"omit-time\"\nshare = 0.01\n\
                    [[fault]]\nkind = \"drop\"\nat = [3]\nconnection = 2\n";
        let script = FaultScript::parse(Injector::Feed, text, 1).unwrap();
        let first = kinds(&script, 1, Direction::FromVenue, 400);
        // Recorded feeds depend on this choice.
        assert_eq!(first.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [192, 291]);
        let mut second = kinds(&script, 2, Direction::FromVenue, 400);
        assert_eq!(second.remove(0), (3, FaultKind::Drop));
        assert_eq!(first, second);
    }

    #[test]
    fn bad_scripts_are_refused_with_the_reason() {
        let both: &[Injector] = &[Injector::Relay, Injector::Feed];
        let (relay, feed) = (&both[..1], &both[1..]);
        for (injectors, text, expected) in [
            (both, "[[fault]]\nkind = \"explode\"\nat = [1]\n", "unknown variant `explode`"),
            (both, "[[fault]]\nkind = \"drop\"\nat = [1]\nwhy = 1\n", "unknown field `why`"),
            (both, "speed = 1\n", "unknown field `speed`"),
            (both, "[[fault]]\nkind = \"drop\"\n", "fault 1 (drop): give at"),
            (both, "[[fault]]\nkind = \"drop\"\nat = [1]\nshare = 0.5\n", "either at or share"),
            (both, "[[fault]]\nkind = \"drop\"\nat = [2, 0]\n", "counted from 1"),
            (both, "[[fault]]\nkind = \"drop\"\nshare = 1.0\nfrom = 9\nto = 8\n", "from 9 is above to 8"),
            (both, "[[fault]]\nkind = \"drop\"\nshare = 1.5\n", "share 1.5"),
            (both, "[[fault]]\nkind = \"drop\"\nshare = nan\n", "share NaN"),
            (both, "[[fault]]\nkind = \"delay\"\nat = [1]\n", "ms is missing"),
            (both, "[[fault]]\nkind = \"delay\"\nat = [1]\nms = 9\nmax_ms = 5\n", "from ms to 3600000"),
            (both, "[[fault]]\nkind = \"delay\"\nat = [1]\nms = 3600001\n", "to 3600000"),
            (both, "[[fault]]\nkind = \"drop\"\nat = [1]\nms = 5\n", "only to delay, stall and reorder"),
            (relay, "[[fault]]\nkind = \"drop\"\nat = [1]\nmessages = 5\n", "only to reorder"),
            (relay, "[[fault]]\nkind = \"reorder\"\nat = [1]\nmessages = 0\n", "messages 0"),
            (relay, "[[fault]]\nkind = \"refuse\"\nat = [1]\nconnection = 2\n", "no direction"),
            (relay, "[[fault]]\nkind = \"drop\"\nat = [1]\ndirection = \"up\"\n", "unknown variant `up`"),
            (both, "fault", "TOML parse error"),
            (feed, "[[fault]]\nkind = \"reorder\"\nat = [1]\n", "fault 1 (reorder): this program injects no such"),
            (relay, "[[fault]]\nkind = \"stall\"\nat = [1]\nms = 5\n", "expected one of delay, drop, duplicate"),
            (feed, "[[fault]]\nkind = \"stall\"\nat = [1]\n", "ms is missing"),
            (feed, "[[fault]]\nkind = \"stall\"\nat = [1]\nms = 0\n", "max_ms above 0"),
            (feed, "[[fault]]\nkind = \"drop\"\nat = [1]\ndirection = \"from-venue\"\n", "only to pitwire relay"),
            (feed, "lasts_ms = 5\n", "lasts_ms applies only to pitwire relay"),
        ] {
            for injector in injectors {
                let error = FaultScript::parse(*injector, text, 1).unwrap_err();
                assert!(error.contains(expected), "{injector:?}, {text:?}: {error}");
            }
        }
    }
}
