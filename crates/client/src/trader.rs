//! Orders that survive a lost connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::decimal::Value;
use crate::objects::{AccountChanges, Fill, Order, OrderOutcome, Position};
use crate::order_tracker::{EntryState, OrderTracker};
use crate::queue::SubscriptionEvent;
use crate::{ConnectionState, EditRequest, Error, Number, OrderRequest, Settings, Subscription, VenueConnection};

const CHANGES: &str = "user.changes.any.any.raw";
/// Interval of queries about lost answers.
const QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// Orders of the history among which a lost order is looked for.
const HISTORY_COUNT: u32 = 1000;
/// The venue's code for an order that does not exist.
const ORDER_NOT_FOUND: i64 = 10004;

/// The orders, fills and positions of one account, over a connection of its own.
///
/// Each order carries a label and `valid_until`. If the answer to an order is lost, the order is
/// [`EntryState::Unknown`] until a query finds it. If a query finds nothing, this is final only
/// after `valid_until`. After a reconnection, and at [`Settings::check_interval`], the trader asks
/// for open orders, positions and missing fills.
#[derive(Debug)]
pub struct Trader {
    account: AccountView,
    validity: Duration,
    label_prefix: String,
    next_label: AtomicU64,
    follower: JoinHandle<()>,
}

/// The connection and the shared state.
#[derive(Clone, Debug)]
struct AccountView {
    connection: VenueConnection,
    tracker: Arc<Mutex<OrderTracker>>,
    /// Counts the changes of the state.
    revision: watch::Sender<u64>,
}

impl Trader {
    /// Connects, logs in, and asks for open orders and positions. An order is refused by the venue
    /// if it reads the order later than `validity` after the call.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`] and [`VenueConnection::call`].
    pub async fn open(settings: Settings, validity: Duration) -> Result<Self, Error> {
        let connection = VenueConnection::open(settings).await?;
        let changes = connection.subscribe(CHANGES).await?;
        let account = AccountView { connection, tracker: Arc::new(Mutex::default()), revision: watch::Sender::new(0) };
        account.rebuild().await?;
        let follower = tokio::spawn(account.clone().follow(changes));
        // Without random numbers the time keeps the labels of two runs apart.
        let random = getrandom::u32().map_or(account.connection.venue_clock_ms(), i64::from);
        let label_prefix = format!("pw-{random:x}");
        Ok(Trader { account, validity, label_prefix, next_label: AtomicU64::new(1), follower })
    }

    /// Enters an order. The trader sets the label and `valid_until` if the request has none. A
    /// label must belong to one order only.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`]. If [`Error::had_no_effect`] is false, the order may exist:
    /// [`Trader::resolve`] tells.
    pub async fn enter(&self, request: &mut OrderRequest) -> Result<OrderOutcome, Error> {
        let label = request.label.get_or_insert_with(|| {
            format!("{}-{}", self.label_prefix, self.next_label.fetch_add(1, Ordering::Relaxed))
        });
        let label = label.clone();
        let valid_until_ms = *request.valid_until_ms.get_or_insert_with(|| self.valid_until_ms());
        self.account.tracker().begin(&label, &request.instrument, valid_until_ms)?;
        let guard = EntryGuard { account: &self.account, label: &label };
        let answered = self.account.connection.query(request.side.method(), &request.params()).await;
        match &answered {
            Ok(outcome) => self.account.take_outcome(outcome),
            Err(error) if error.had_no_effect() => self.account.change(|tracker| tracker.forget(&label)),
            // The guard marks the entry as unknown.
            Err(_) => {}
        }
        drop(guard);
        answered
    }

    /// Changes the amount and the price of an order.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`]. After a lost answer the trader queries the order.
    pub async fn edit(&self, order_id: &str, amount: &Number, price: &Number) -> Result<OrderOutcome, Error> {
        let valid_until_ms = self.valid_until_ms();
        let params = EditRequest { order_id, amount, price, valid_until: Some(valid_until_ms) };
        let answered = self.account.connection.query("private/edit", &params).await;
        match &answered {
            Ok(outcome) => self.account.take_outcome(outcome),
            Err(error) => self.account.doubt(order_id, valid_until_ms, error),
        }
        answered
    }

    /// Cancels an order. If the venue answers with an open order, the trader queries it.
    ///
    /// # Errors
    ///
    /// As [`Trader::edit`].
    pub async fn cancel(&self, order_id: &str) -> Result<Order, Error> {
        let answered = self.account.connection.query("private/cancel", &json!({"order_id": order_id})).await;
        match &answered {
            Ok(order) => self.account.change(|tracker| {
                tracker.update_order(Order::clone(order));
                // Some venues answer with the state of a stop before its cancel.
                if order.is_open() {
                    tracker.doubt(order_id, self.account.connection.venue_clock_ms());
                }
            }),
            Err(error) => self.account.doubt(order_id, self.valid_until_ms(), error),
        }
        answered
    }

    /// Asks for the open orders, the positions and missing fills again. The trader does so by
    /// itself after a reconnection. Call this for fields of which the venue sends no notice, such
    /// as [`Order::queue_ahead`] and [`Position::floating_profit_loss`].
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`].
    pub async fn refresh(&self) -> Result<(), Error> {
        self.account.rebuild().await
    }

    /// Waits until it is certain whether the order with this label was entered. Returns `None` for
    /// a label that no order of this trader has, and [`EntryState::Unknown`] if the connection ends
    /// before.
    pub async fn resolve(&self, label: &str) -> Option<EntryState> {
        let mut revisions = self.account.revision.subscribe();
        loop {
            revisions.borrow_and_update();
            match self.account.tracker().entry(label) {
                Some(EntryState::Sent | EntryState::Unknown) => {}
                settled => return settled,
            }
            // The state of the connection changes before the follower reports the end.
            let has_ended = matches!(*self.account.connection.state().borrow(), ConnectionState::Ended { .. });
            if has_ended || revisions.changed().await.is_err() {
                return self.account.tracker().entry(label);
            }
        }
    }

    /// Returns what is known now about the order with this label.
    pub fn entry(&self, label: &str) -> Option<EntryState> {
        self.account.tracker().entry(label)
    }

    pub fn order(&self, order_id: &str) -> Option<Order> {
        self.account.tracker().order(order_id)
    }

    pub fn open_orders(&self) -> Vec<Order> {
        self.account.tracker().open_orders()
    }

    /// Returns the sum and the number of the known fills of an order.
    pub fn fills(&self, order_id: &str) -> (Value, usize) {
        self.account.tracker().fills(order_id)
    }

    /// Returns the positions whose size is not zero.
    pub fn positions(&self) -> Vec<Position> {
        self.account.tracker().positions()
    }

    /// Returns a counter that changes whenever an order, a fill or a position may have changed.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.account.revision.subscribe()
    }

    pub fn connection(&self) -> &VenueConnection {
        &self.account.connection
    }

    fn valid_until_ms(&self) -> i64 {
        let validity_ms = i64::try_from(self.validity.as_millis()).unwrap_or(i64::MAX);
        self.account.connection.venue_clock_ms().saturating_add(validity_ms)
    }
}

impl Drop for Trader {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Marks an entry as unknown when its call ends without an answer, or when the caller drops it.
struct EntryGuard<'a> {
    account: &'a AccountView,
    label: &'a str,
}

impl Drop for EntryGuard<'_> {
    fn drop(&mut self) {
        self.account.change(|tracker| tracker.lose_answer(self.label));
    }
}

impl AccountView {
    fn tracker(&self) -> MutexGuard<'_, OrderTracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut OrderTracker)) {
        change(&mut self.tracker());
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn take_outcome(&self, outcome: &OrderOutcome) {
        self.change(|tracker| {
            tracker.update_order(outcome.order.clone());
            outcome.trades.iter().cloned().for_each(|fill| tracker.add_fill(fill));
        });
    }

    fn doubt(&self, order_id: &str, until_ms: i64, error: &Error) {
        if !error.had_no_effect() {
            self.change(|tracker| tracker.doubt(order_id, until_ms));
        }
    }

    /// Follows the account until the connection ends.
    async fn follow(self, mut changes: Subscription) {
        let mut ticks = interval(QUERY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut must_rebuild = false;
        let check_interval = self.connection.check_interval();
        let mut check_at = check_interval.map(|interval| Instant::now() + interval);
        loop {
            tokio::select! {
                event = changes.next() => match event {
                    SubscriptionEvent::Notice(notice) => {
                        match serde_json::from_str::<AccountChanges>(notice.data.get()) {
                            Ok(changes) => self.change(|tracker| {
                                changes.orders.into_iter().for_each(|order| tracker.update_order(order));
                                changes.trades.into_iter().for_each(|fill| tracker.add_fill(fill));
                                changes.positions.into_iter().for_each(|position| tracker.update_position(position));
                            }),
                            Err(_) => must_rebuild = true,
                        }
                    }
                    SubscriptionEvent::Lost { .. } | SubscriptionEvent::Restarted => must_rebuild = true,
                    SubscriptionEvent::Ended { .. } => {
                        self.change(|_| {});
                        return;
                    }
                },
                _ = ticks.tick() => {
                    if check_at.is_some_and(|at| Instant::now() >= at) {
                        // Reports have no numbers, so only a query shows that one was lost.
                        must_rebuild = true;
                        check_at = check_interval.map(|interval| Instant::now() + interval);
                    }
                    if must_rebuild {
                        // The connection has failed again; the next tick repeats it.
                        must_rebuild = self.rebuild().await.is_err();
                    }
                    if !must_rebuild && self.tracker().has_questions() {
                        drop(self.answer_questions().await);
                    }
                }
            }
        }
    }

    /// Asks for the state of the account.
    async fn rebuild(&self) -> Result<(), Error> {
        let known = self.tracker().open_orders();
        let open: Vec<Order> = self.connection.query("private/get_open_orders", &json!({})).await?;
        let is_listed = |order: &Order| open.iter().any(|listed| listed.order_id == order.order_id);
        let missing: Vec<String> =
            known.into_iter().filter(|order| !is_listed(order)).map(|order| order.order_id).collect();
        self.change(|tracker| open.into_iter().for_each(|order| tracker.update_order(order)));
        for order_id in missing {
            self.query_order(&order_id).await?;
        }
        let positions: Vec<Position> = self.connection.query("private/get_positions", &json!({})).await?;
        self.change(|tracker| tracker.replace_positions(positions));
        let incomplete = self.tracker().incomplete_orders();
        for order_id in incomplete {
            let params = json!({"order_id": order_id, "count": HISTORY_COUNT});
            let fills: Vec<Fill> = self.connection.query("private/get_user_trades_by_order", &params).await?;
            self.change(|tracker| fills.into_iter().for_each(|fill| tracker.add_fill(fill)));
        }
        Ok(())
    }

    async fn query_order(&self, order_id: &str) -> Result<(), Error> {
        let asked_ms = self.connection.venue_clock_ms();
        let params = json!({"order_id": order_id});
        match self.connection.query::<_, Order>("private/get_order_state", &params).await {
            Ok(order) => self.change(|tracker| tracker.update_order(order)),
            Err(Error::Venue(refusal)) if refusal.code == ORDER_NOT_FOUND => self.change(|tracker| {
                if let Some(order) = tracker.order(order_id) {
                    tracker.update_order(Order { order_state: "not_found".into(), ..order });
                }
            }),
            Err(error) => return Err(error),
        }
        self.change(|tracker| tracker.check_doubt(order_id, asked_ms));
        Ok(())
    }

    /// Looks for orders whose answer was lost, first among the open ones and then in the history.
    /// An order that closes between the two queries is in the history.
    async fn answer_questions(&self) -> Result<(), Error> {
        let (unknown, doubtful) = {
            let tracker = self.tracker();
            (tracker.unknown_entries(), tracker.doubtful_orders())
        };
        for order_id in doubtful {
            self.query_order(&order_id).await?;
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let asked_ms = self.connection.venue_clock_ms();
        let mut found: Vec<Order> = self.connection.query("private/get_open_orders", &json!({})).await?;
        for entry in unknown {
            let params = json!({
                "instrument_name": entry.instrument, "count": HISTORY_COUNT, "include_unfilled": true,
            });
            let closed: Vec<Order> = self.connection.query("private/get_order_history_by_instrument", &params).await?;
            found.extend(closed);
            match found.iter().find(|order| order.label == entry.label) {
                Some(order) => self.change(|tracker| tracker.update_order(order.clone())),
                None => self.change(|tracker| tracker.find_nothing(&entry.label, asked_ms)),
            }
        }
        Ok(())
    }
}
