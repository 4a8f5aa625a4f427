//! A book that follows the changes of a book channel.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decimal::Value;

/// A copy of a venue's book. Each change must name the change before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderBook {
    bids: BTreeMap<Value, Value>,
    asks: BTreeMap<Value, Value>,
    change_id: Option<u64>,
}

/// The effect of a message on a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookUpdate {
    Snapshot,
    Changed,
    /// The book contains this change already, or waits for a snapshot.
    Ignored,
}

/// Why a book cannot follow its channel any more. A new snapshot is necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookFault {
    /// The change does not follow the last one.
    Gap {
        expected: u64,
        received: u64,
    },
    /// The change deletes or changes a price that the book does not have.
    UnknownPrice(Value),
    Malformed(String),
}

impl fmt::Display for BookFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BookFault::Gap { expected, received } => {
                write!(f, "gap in the book: expected a change after {expected}, received one after {received}")
            }
            BookFault::UnknownPrice(price) => write!(f, "the book has no price {price}, but the change names it"),
            BookFault::Malformed(what) => write!(f, "malformed book message: {what}"),
        }
    }
}

#[derive(Deserialize)]
struct BookMessage<'a> {
    change_id: u64,
    prev_change_id: Option<u64>,
    #[serde(borrow, default)]
    bids: Vec<LevelChange<'a>>,
    #[serde(borrow, default)]
    asks: Vec<LevelChange<'a>>,
}

/// `new`, `change` or `delete`; price; amount.
#[derive(Deserialize)]
struct LevelChange<'a>(#[serde(borrow)] Cow<'a, str>, Value, Value);

impl OrderBook {
    /// Applies the `data` of a message of `book.INSTRUMENT.INTERVAL`. A message without
    /// `prev_change_id` is a snapshot and replaces the book.
    ///
    /// # Errors
    ///
    /// Fails if the message does not continue the book. The book is then empty and ignores changes
    /// until the next snapshot.
    pub fn apply(&mut self, data: &RawValue) -> Result<BookUpdate, BookFault> {
        let message: BookMessage<'_> = serde_json::from_str(data.get()).map_err(|error| {
            self.clear();
            BookFault::Malformed(error.to_string())
        })?;
        let applied = match message.prev_change_id {
            None => {
                self.clear();
                self.change_id = Some(message.change_id);
                self.apply_levels(&message).map(|()| BookUpdate::Snapshot)
            }
            Some(previous) => match self.change_id {
                None => Ok(BookUpdate::Ignored),
                // A message that arrives twice, or late.
                Some(last) if message.change_id <= last => Ok(BookUpdate::Ignored),
                Some(last) if previous != last => Err(BookFault::Gap { expected: last, received: previous }),
                Some(_) => {
                    self.change_id = Some(message.change_id);
                    self.apply_levels(&message).map(|()| BookUpdate::Changed)
                }
            },
        };
        if applied.is_err() {
            self.clear();
        }
        applied
    }

    fn apply_levels(&mut self, message: &BookMessage<'_>) -> Result<(), BookFault> {
        for (side, levels) in [(&mut self.bids, &message.bids), (&mut self.asks, &message.asks)] {
            for LevelChange(action, price, amount) in levels {
                let was_present = match &**action {
                    "new" => {
                        side.insert(*price, *amount);
                        true
                    }
                    "change" => side.insert(*price, *amount).is_some(),
                    "delete" => side.remove(price).is_some(),
                    other => return Err(BookFault::Malformed(format!("unknown action {other:?}"))),
                };
                if !was_present {
                    return Err(BookFault::UnknownPrice(*price));
                }
            }
        }
        Ok(())
    }

    /// Empties the book. It ignores changes until the next snapshot.
    pub fn clear(&mut self) {
        *self = OrderBook::default();
    }

    /// Returns the number of the last change, or `None` if the book waits for a snapshot.
    pub fn change_id(&self) -> Option<u64> {
        self.change_id
    }

    /// Returns the bids as price and amount, best first.
    pub fn bids(&self) -> impl Iterator<Item = (Value, Value)> {
        self.bids.iter().rev().map(|(price, amount)| (*price, *amount))
    }

    /// Returns the offers as price and amount, best first.
    pub fn asks(&self) -> impl Iterator<Item = (Value, Value)> {
        self.asks.iter().map(|(price, amount)| (*price, *amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(book: &mut OrderBook, text: &str) -> Result<BookUpdate, BookFault> {
        book.apply(&RawValue::from_string(text.into()).unwrap())
    }

    const SNAPSHOT: &str =
        r#"{"type":"snapshot","change_id":5,"bids":[["new",10.5,3],["new",9,1]],"asks":[["new",11.0,2]],"more":{}}"#;

    fn book() -> OrderBook {
        let mut book = OrderBook::default();
        assert_eq!(apply(&mut book, SNAPSHOT), Ok(BookUpdate::Snapshot));
        book
    }

    #[test]
    fn book_follows_new_changed_and_deleted_prices() {
        let mut book = book();
        let change = r#"{"change_id":9,"prev_change_id":5,"bids":[["change",10.50,4],["delete",9,0],["new",10,7]],
                         "asks":[]}"#;
        assert_eq!(apply(&mut book, change), Ok(BookUpdate::Changed));
        let texts: Vec<String> = book.bids().map(|(price, amount)| format!("{price}x{amount}")).collect();
        assert_eq!(texts, ["10.5x4", "10x7"]);
        assert_eq!(book.asks().count(), 1);
        assert_eq!(book.change_id(), Some(9));
    }

    #[test]
    fn repeated_and_late_changes_are_ignored() {
        let mut book = book();
        let before = book.clone();
        let repeated = r#"{"change_id":5,"prev_change_id":4,"bids":[["delete",1,0]],"asks":[]}"#;
        let late = r#"{"change_id":4,"prev_change_id":3,"bids":[["new",8,1]],"asks":[]}"#;
        for text in [repeated, late] {
            assert_eq!(apply(&mut book, text), Ok(BookUpdate::Ignored));
        }
        assert_eq!(book, before);
    }

    #[test]
    fn gap_and_unknown_price_empty_the_book_until_the_next_snapshot() {
        for (change, fault) in [
            (r#"{"change_id":9,"prev_change_id":8,"bids":[],"asks":[]}"#, BookFault::Gap { expected: 5, received: 8 }),
            (
                r#"{"change_id":9,"prev_change_id":5,"bids":[["delete",8,0]],"asks":[]}"#,
                BookFault::UnknownPrice(Value::parse("8").unwrap()),
            ),
        ] {
            let mut book = book();
            assert_eq!(apply(&mut book, change), Err(fault));
            assert_eq!((book.bids().count(), book.change_id()), (0, None));
            let next = r#"{"change_id":12,"prev_change_id":9,"bids":[["new",1,1]],"asks":[]}"#;
            assert_eq!(apply(&mut book, next), Ok(BookUpdate::Ignored));
            assert_eq!(apply(&mut book, SNAPSHOT), Ok(BookUpdate::Snapshot));
        }
        let mut book = book();
        assert!(matches!(apply(&mut book, "[1]"), Err(BookFault::Malformed(_))));
        assert_eq!(book.change_id(), None);
    }
}
