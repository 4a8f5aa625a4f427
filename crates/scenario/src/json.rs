//! JSON values that know their line number, so that an error in a long file can name its line.
//!
//! Leaves out  building a tree: a node is a slice of the text and is parsed on access.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An error in a scenario file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    pub file: String,
    pub line: usize,
    pub scenario: Option<String>,
    pub what: String,
    /// Section of the rulebook that defines the violated rule.
    pub rule: &'static str,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if let Some(scenario) = &self.scenario {
            write!(f, "scenario {scenario}: ")?;
        }
        write!(f, "{} ({})", self.what, self.rule)
    }
}

impl std::error::Error for ScenarioError {}

/// Name and text of a whole file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// One JSON value. A member that is `null` counts as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    source: Source<'a>,
    raw: &'a str,
    rule: &'static str,
}

pub(crate) struct Members<'a> {
    of: Node<'a>,
    list: Vec<(String, Node<'a>)>,
}

impl<'a> Source<'a> {
    /// Returns all top-level values of the text in order.
    ///
    /// # Errors
    /// If the text is not JSON, with the line.
    pub fn values(self, rule: &'static str) -> Result<Vec<Node<'a>>, ScenarioError> {
        let mut nodes = Vec::new();
        for value in serde_json::Deserializer::from_str(self.text).into_iter::<&RawValue>() {
            match value {
                Ok(raw) => nodes.push(Node { source: self, raw: raw.get(), rule }),
                Err(error) => return Err(self.not_json(1, &error, rule)),
            }
        }
        Ok(nodes)
    }

    fn not_json(self, first_line: usize, error: &serde_json::Error, rule: &'static str) -> ScenarioError {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        ScenarioError {
            file: self.name.to_owned(),
            line: first_line - 1 + error.line().max(1),
            scenario: None,
            what: format!("not JSON: {reason}"),
            rule,
        }
    }
}

impl<'a> Node<'a> {
    pub fn under(self, rule: &'static str) -> Node<'a> {
        Node { rule, ..self }
    }

    pub fn line(self) -> usize {
        let at = (self.raw.as_ptr() as usize).saturating_sub(self.source.text.as_ptr() as usize);
        1 + self.source.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    pub fn fault(self, what: impl Into<String>) -> ScenarioError {
        let Node { source, rule, .. } = self;
        ScenarioError { file: source.name.to_owned(), line: self.line(), scenario: None, what: what.into(), rule }
    }

    pub fn is_null(self) -> bool {
        self.raw == "null"
    }

    pub fn is_array(self) -> bool {
        self.raw.starts_with('[')
    }

    /// Returns the items of a list.
    ///
    /// # Errors
    /// If the value is not a list.
    pub fn items(self) -> Result<Vec<Node<'a>>, ScenarioError> {
        if !self.is_array() {
            return Err(self.fault(format!("{} where a list belongs", self.shortened())));
        }
        let raws: Vec<&'a RawValue> = self.parsed()?;
        Ok(raws.into_iter().map(|raw| Node { raw: raw.get(), ..self }).collect())
    }

    /// Returns the members of an object with arbitrary keys. Fails if a key repeats.
    ///
    /// # Errors
    /// If the value is not an object, or if a key repeats.
    pub fn any_members(self) -> Result<Vec<Node<'a>>, ScenarioError> {
        if !self.raw.starts_with('{') {
            return Err(self.fault(format!("{} where an object belongs", self.shortened())));
        }
        let raws: Pairs<'a> = self.parsed()?;
        let keys: Vec<&str> = raws.0.iter().map(|(key, _)| key.as_ref()).collect();
        let members = self.members(&keys)?;
        Ok(members.list.into_iter().map(|(_, node)| node).collect())
    }

    /// Returns the members of an object. Fails if a key repeats or is not in `known`.
    ///
    /// # Errors
    /// If the value is not an object, or if a key repeats or is unknown.
    pub fn members(self, known: &[&str]) -> Result<Members<'a>, ScenarioError> {
        if !self.raw.starts_with('{') {
            return Err(self.fault(format!("{} where an object belongs", self.shortened())));
        }
        let raws: Pairs<'a> = self.parsed()?;
        let list: Vec<(String, Node<'a>)> =
            raws.0.into_iter().map(|(key, raw)| (key, Node { raw: raw.get(), ..self })).collect();
        for (at, (key, value)) in list.iter().enumerate() {
            if !known.contains(&key.as_str()) {
                return Err(value.fault(format!("unknown key {key:?}; known here are {}", known.join(", "))));
            }
            if list[..at].iter().any(|(earlier, _)| earlier == key) {
                return Err(value.fault(format!("key {key:?} occurs twice")));
            }
        }
        Ok(Members { of: self, list })
    }

    /// Returns a text.
    ///
    /// # Errors
    /// If the value is not a string.
    pub fn text(self) -> Result<String, ScenarioError> {
        if !self.raw.starts_with('"') {
            return Err(self.fault(format!("{} where a text in quotes belongs", self.shortened())));
        }
        self.parsed()
    }

    /// Returns a boolean.
    ///
    /// # Errors
    /// If the value is neither true nor false.
    pub fn truth(self) -> Result<bool, ScenarioError> {
        self.parsed().map_err(|_| self.fault(format!("{} where true or false belongs", self.shortened())))
    }

    /// Parses an integer of at least `least`.
    ///
    /// # Errors
    /// If the value is not a whole number, or smaller.
    pub fn number(self, least: i64) -> Result<i64, ScenarioError> {
        match serde_json::from_str::<i64>(self.raw) {
            Ok(number) if number >= least => Ok(number),
            _ => Err(self.fault(format!("{} where a whole number from {least} on belongs", self.shortened()))),
        }
    }

    /// Returns the value as it is.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn value(self) -> Result<serde_json::Value, ScenarioError> {
        self.parsed()
    }

    fn parsed<T: Deserialize<'a>>(self) -> Result<T, ScenarioError> {
        serde_json::from_str(self.raw).map_err(|error| self.source.not_json(self.line(), &error, self.rule))
    }

    /// Returns the start of the value's text, long enough to recognise it in an error message.
    pub fn shortened(self) -> String {
        const MOST: usize = 40;
        match self.raw.char_indices().nth(MOST) {
            Some((end, _)) => format!("{}…", &self.raw[..end]),
            None => self.raw.to_owned(),
        }
    }
}

impl<'a> Members<'a> {
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.list.iter().find(|(name, value)| name == key && !value.is_null()).map(|(_, value)| *value)
    }

    /// Returns the member of a key.
    ///
    /// # Errors
    /// If there is none.
    pub fn need(&self, key: &str) -> Result<Node<'a>, ScenarioError> {
        self.get(key).ok_or_else(|| self.of.fault(format!("no {key:?}")))
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// An object's members in their original order, including repeated keys.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
