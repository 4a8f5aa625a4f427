//! The orders of an account as far as the client knows them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Error;
use crate::decimal::Value;
use crate::objects::{Fill, Order, Position};

/// Closed orders and settled requests that are remembered, each.
const CLOSED_MAX: usize = 10_000;
/// Time after `valid_until` before "not found" is believed, in milliseconds. It covers the error of
/// the estimated venue clock.
const CLOCK_MARGIN_MS: i64 = 1000;

/// The knowledge about a request to enter an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// The request was sent, and its answer may still come.
    Sent,
    /// The answer is lost. The order may exist.
    Unknown,
    Entered {
        order_id: String,
    },
    /// The order does not exist and never will, because `valid_until` has passed.
    NotEntered,
}

#[derive(Debug)]
struct TrackerEntry {
    instrument: String,
    valid_until_ms: i64,
    state: EntryState,
}

/// An entry whose order may or may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownEntry {
    pub label: String,
    pub instrument: String,
}

#[derive(Debug)]
struct TrackedOrder {
    order: Order,
    trade_ids: BTreeSet<String>,
    filled: Value,
}

#[derive(Debug, Default)]
pub(crate) struct OrderTracker {
    entries: BTreeMap<String, TrackerEntry>,
    settled: VecDeque<String>,
    orders: BTreeMap<String, TrackedOrder>,
    closed: VecDeque<String>,
    /// Fills that arrived before their order.
    early_fills: BTreeMap<String, Vec<Fill>>,
    positions: BTreeMap<String, Position>,
    /// Orders with an unanswered edit or cancel, and the last time in milliseconds at which the
    /// venue may execute it.
    doubtful: BTreeMap<String, i64>,
}

impl OrderTracker {
    /// Registers a request before it is sent.
    ///
    /// # Errors
    ///
    /// Returns [`Error::LabelInUse`] if another request has the label.
    pub fn begin(&mut self, label: &str, instrument: &str, valid_until_ms: i64) -> Result<(), Error> {
        if self.entries.contains_key(label) {
            return Err(Error::LabelInUse { label: label.into() });
        }
        let entry = TrackerEntry { instrument: instrument.into(), valid_until_ms, state: EntryState::Sent };
        self.entries.insert(label.into(), entry);
        Ok(())
    }

    /// Forgets a request that certainly had no effect.
    pub fn forget(&mut self, label: &str) {
        self.entries.remove(label);
    }

    pub fn lose_answer(&mut self, label: &str) {
        if let Some(entry) = self.entries.get_mut(label).filter(|entry| entry.state == EntryState::Sent) {
            entry.state = EntryState::Unknown;
        }
    }

    pub fn entry(&self, label: &str) -> Option<EntryState> {
        self.entries.get(label).map(|entry| entry.state.clone())
    }

    pub fn unknown_entries(&self) -> Vec<UnknownEntry> {
        let unknown = self.entries.iter().filter(|(_, entry)| entry.state == EntryState::Unknown);
        unknown
            .map(|(label, entry)| UnknownEntry { label: label.clone(), instrument: entry.instrument.clone() })
            .collect()
    }

    /// Reports that a query begun at `asked_ms` of the venue's clock found no order. This is final
    /// only after `valid_until`, because until then the venue may still read the request.
    pub fn find_nothing(&mut self, label: &str, asked_ms: i64) {
        if let Some(entry) = self.entries.get_mut(label)
            && entry.state == EntryState::Unknown
            && asked_ms > entry.valid_until_ms + CLOCK_MARGIN_MS
        {
            self.settle(label, EntryState::NotEntered);
        }
    }

    fn settle(&mut self, label: &str, state: EntryState) {
        let Some(entry) = self.entries.get_mut(label) else { return };
        let was_open = matches!(entry.state, EntryState::Sent | EntryState::Unknown);
        entry.state = state;
        if was_open {
            self.settled.push_back(label.into());
        }
        if self.settled.len() > CLOSED_MAX
            && let Some(oldest) = self.settled.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Takes over a report of an order. A report that is older than the known state is ignored.
    pub fn update_order(&mut self, order: Order) {
        if !order.label.is_empty() {
            self.settle(&order.label.clone(), EntryState::Entered { order_id: order.order_id.clone() });
        }
        let order_id = order.order_id.clone();
        let was_open = match self.orders.get_mut(&order_id) {
            Some(tracked) => {
                let known = &tracked.order;
                let is_older = order.last_update_timestamp < known.last_update_timestamp
                    || order.filled_amount < known.filled_amount
                    || (order.is_open() && !known.is_open());
                if is_older {
                    return;
                }
                let was_open = known.is_open();
                tracked.order = order;
                was_open
            }
            None => {
                let tracked = TrackedOrder { order, trade_ids: BTreeSet::new(), filled: Value::ZERO };
                self.orders.insert(order_id.clone(), tracked);
                true
            }
        };
        for fill in self.early_fills.remove(&order_id).unwrap_or_default() {
            self.add_fill(fill);
        }
        if was_open && !self.orders[&order_id].order.is_open() {
            self.closed.push_back(order_id);
            if self.closed.len() > CLOSED_MAX
                && let Some(oldest) = self.closed.pop_front()
            {
                self.orders.remove(&oldest);
            }
        }
    }

    /// Adds a fill once, however often it is reported.
    pub fn add_fill(&mut self, fill: Fill) {
        if let Some(tracked) = self.orders.get_mut(&fill.order_id) {
            if tracked.trade_ids.insert(fill.trade_id) {
                tracked.filled = tracked.filled.plus(fill.amount);
            }
        } else if self.early_fills.len() < CLOSED_MAX {
            self.early_fills.entry(fill.order_id.clone()).or_default().push(fill);
        }
    }

    pub fn order(&self, order_id: &str) -> Option<Order> {
        self.orders.get(order_id).map(|tracked| tracked.order.clone())
    }

    /// Returns the sum of the fills of an order and their number.
    pub fn fills(&self, order_id: &str) -> (Value, usize) {
        self.orders.get(order_id).map_or((Value::ZERO, 0), |tracked| (tracked.filled, tracked.trade_ids.len()))
    }

    pub fn open_orders(&self) -> Vec<Order> {
        let open = self.orders.values().filter(|tracked| tracked.order.is_open());
        open.map(|tracked| tracked.order.clone()).collect()
    }

    /// Returns the orders of which fills are missing.
    pub fn incomplete_orders(&self) -> Vec<String> {
        let incomplete = self.orders.iter().filter(|(_, tracked)| tracked.filled < tracked.order.filled_amount);
        incomplete.map(|(order_id, _)| order_id.clone()).collect()
    }

    pub fn doubt(&mut self, order_id: &str, until_ms: i64) {
        self.doubtful.insert(order_id.into(), until_ms);
    }

    pub fn doubtful_orders(&self) -> Vec<String> {
        self.doubtful.keys().cloned().collect()
    }

    /// Reports that the state of an order was queried at `asked_ms` of the venue's clock.
    pub fn check_doubt(&mut self, order_id: &str, asked_ms: i64) {
        if self.doubtful.get(order_id).is_some_and(|until_ms| asked_ms > until_ms + CLOCK_MARGIN_MS) {
            self.doubtful.remove(order_id);
        }
    }

    pub fn has_questions(&self) -> bool {
        !self.doubtful.is_empty() || self.entries.values().any(|entry| entry.state == EntryState::Unknown)
    }

    pub fn update_position(&mut self, position: Position) {
        self.positions.insert(position.instrument_name.clone(), position);
    }

    pub fn replace_positions(&mut self, positions: Vec<Position>) {
        self.positions.clear();
        positions.into_iter().for_each(|position| self.update_position(position));
    }

    pub fn positions(&self) -> Vec<Position> {
        self.positions.values().filter(|position| !position.size.is_zero()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(state: &str, filled: &str, at_ms: i64) -> Order {
        Order {
            order_id: "1".into(),
            instrument_name: "X".into(),
            direction: "buy".into(),
            order_state: state.into(),
            amount: Value::parse("5").unwrap(),
            filled_amount: Value::parse(filled).unwrap(),
            label: "a".into(),
            order_type: "limit".into(),
            price: Value::parse("10"),
            trigger_price: None,
            time_in_force: "good_til_cancelled".into(),
            tif_ext: None,
            hidden: false,
            queue_ahead: None,
            last_update_timestamp: at_ms,
        }
    }

    fn fill(trade_id: &str, amount: &str) -> Fill {
        let value = |text| Value::parse(text).unwrap();
        Fill {
            trade_id: trade_id.into(),
            order_id: "1".into(),
            instrument_name: "X".into(),
            price: value("10"),
            amount: value(amount),
        }
    }

    #[test]
    fn not_found_is_final_only_after_valid_until_and_the_clock_margin() {
        let mut tracker = OrderTracker::default();
        tracker.begin("a", "X", 5000).unwrap();
        assert!(matches!(tracker.begin("a", "X", 5000), Err(Error::LabelInUse { .. })));
        tracker.find_nothing("a", 9000);
        assert_eq!(tracker.entry("a"), Some(EntryState::Sent), "its answer may still come");
        tracker.lose_answer("a");
        for asked_ms in [0, 5000, 5000 + CLOCK_MARGIN_MS] {
            tracker.find_nothing("a", asked_ms);
            assert_eq!(tracker.entry("a"), Some(EntryState::Unknown), "{asked_ms}");
        }
        tracker.find_nothing("a", 5001 + CLOCK_MARGIN_MS);
        assert_eq!(tracker.entry("a"), Some(EntryState::NotEntered));
        assert!(!tracker.has_questions());
    }

    #[test]
    fn report_with_the_label_answers_an_unknown_entry() {
        let mut tracker = OrderTracker::default();
        tracker.begin("a", "X", 5000).unwrap();
        tracker.lose_answer("a");
        assert_eq!(tracker.unknown_entries().len(), 1);
        tracker.update_order(order("open", "0", 1));
        assert_eq!(tracker.entry("a"), Some(EntryState::Entered { order_id: "1".into() }));
        tracker.find_nothing("a", 1_000_000);
        assert_eq!(tracker.entry("a"), Some(EntryState::Entered { order_id: "1".into() }));
    }

    #[test]
    fn older_report_does_not_reopen_or_unfill_an_order() {
        let mut tracker = OrderTracker::default();
        tracker.update_order(order("open", "2", 7));
        tracker.update_order(order("open", "0", 7));
        tracker.update_order(order("open", "3", 6));
        assert_eq!(tracker.order("1"), Some(order("open", "2", 7)));
        tracker.update_order(order("filled", "5", 8));
        tracker.update_order(order("open", "5", 8));
        assert_eq!(tracker.order("1").unwrap().order_state, "filled");
        assert!(tracker.open_orders().is_empty());
    }

    #[test]
    fn fill_counts_once_even_if_it_precedes_its_order() {
        let mut tracker = OrderTracker::default();
        tracker.add_fill(fill("t1", "2"));
        tracker.update_order(order("open", "3.5", 1));
        assert_eq!(tracker.incomplete_orders(), ["1"]);
        for trade_id in ["t1", "t2", "t2"] {
            tracker.add_fill(fill(trade_id, "1.5"));
        }
        assert_eq!(tracker.fills("1"), (Value::parse("3.5").unwrap(), 2));
        assert!(tracker.incomplete_orders().is_empty());
    }
}
