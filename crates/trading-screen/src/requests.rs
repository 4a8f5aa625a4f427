//! The requests of the user and of the screen. Each runs in a task, so that the screen never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pitwire_client::{Cancel, EntryState, Error, OrderRequest, Trader, VenueConnection};
use pitwire_failure::Failure;
use serde_json::json;
use tokio::sync::mpsc;

use crate::market_feed::{MarketFeed, latest_trades};
use crate::messages::{Balance, Balances, PublicTrade};
use crate::screen::Action;

/// The results of requests.
#[derive(Debug)]
pub enum Update {
    /// A request of the user has ended. The time is that from the call to its answer.
    Answer {
        took: Option<Duration>,
        result: Result<String, String>,
    },
    /// An order was filled by its entry. The notices of its trades say at which prices.
    Filled {
        took: Duration,
    },
    /// The answer to an order is lost. A query will tell whether it exists.
    Unknown {
        label: String,
    },
    /// It is now known whether an order exists.
    Settled {
        label: String,
        result: Result<String, String>,
    },
    Ping(Duration),
    Balances(Vec<Balance>),
    /// The channels of an instrument are open, or could not be opened.
    Market {
        index: usize,
        feed: Result<Box<MarketFeed>, Error>,
    },
    /// Trades after a gap.
    Trades {
        index: usize,
        trades: Vec<PublicTrade>,
    },
}

/// Starts the tasks and receives their results.
#[derive(Clone, Debug)]
pub struct Requests {
    pub data: VenueConnection,
    /// Absent without a login.
    pub trader: Option<Arc<Trader>>,
    updates: mpsc::UnboundedSender<Update>,
    is_polling: Arc<AtomicBool>,
}

impl Requests {
    /// Returns the requests over these connections, and their results.
    pub fn new(data: VenueConnection, trader: Option<Arc<Trader>>) -> (Self, mpsc::UnboundedReceiver<Update>) {
        let (updates, results) = mpsc::unbounded_channel();
        (Requests { data, trader, updates, is_polling: Arc::default() }, results)
    }

    fn send(&self, update: Update) {
        // The screen may have ended.
        drop(self.updates.send(update));
    }

    /// Opens the channels of an instrument.
    pub fn open_market(&self, index: usize, name: &str) {
        let (this, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let feed = MarketFeed::open(&this.data, &name).await.map(Box::new);
            this.send(Update::Market { index, feed });
        });
    }

    /// Asks for trades that a gap may have left out.
    pub fn reload_trades(&self, index: usize, name: &str) {
        let (this, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            // After a failure the connection begins again, and the gap is reported again.
            if let Ok(trades) = latest_trades(&this.data, &name).await {
                this.send(Update::Trades { index, trades });
            }
        });
    }

    /// Measures a round trip, on the connection of orders if there is one, and asks for queue
    /// positions, profits and balances, of which the venue sends no notice. Does nothing while the
    /// answers to the last call of this function are missing.
    pub fn poll(&self) {
        if self.is_polling.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            // A failure shows in the state of the connection.
            drop(this.poll_once().await);
            this.is_polling.store(false, Ordering::Relaxed);
        });
    }

    async fn poll_once(&self) -> Result<(), Error> {
        let connection = self.trader.as_ref().map_or(&self.data, |trader| trader.connection());
        let begun = Instant::now();
        connection.call("public/test", &json!({})).await?;
        self.send(Update::Ping(begun.elapsed()));
        if let Some(trader) = &self.trader {
            trader.refresh().await?;
            let asked: Balances = connection.query("private/get_account_summaries", &json!({})).await?;
            self.send(Update::Balances(asked.summaries));
        }
        Ok(())
    }

    /// Carries out a request of the user for `instrument`.
    pub fn execute(&self, action: Action, instrument: &str) {
        let Some(trader) = self.trader.clone() else { return };
        let (this, instrument) = (self.clone(), instrument.to_owned());
        tokio::spawn(async move {
            match action {
                Action::Enter(request) => this.enter(&trader, request).await,
                Action::Edit { order_id, amount, price } => {
                    let begun = Instant::now();
                    let edited = trader.edit(&order_id, &amount, &price).await;
                    let took = begun.elapsed();
                    this.answer(Some(took), edited.map(|_| format!("changed order {order_id} to {amount} at {price}")));
                }
                Action::Cancel { order_ids } => {
                    for order_id in order_ids {
                        let begun = Instant::now();
                        let cancelled = trader.cancel(&order_id).await;
                        this.answer(Some(begun.elapsed()), cancelled.map(|_| format!("cancelled order {order_id}")));
                    }
                }
                Action::CancelAll => {
                    let (method, params) = Cancel::Instrument(&instrument).request();
                    let begun = Instant::now();
                    let cancelled = trader.connection().call(method, &params).await;
                    let took = begun.elapsed();
                    this.answer(Some(took), cancelled.map(|count| format!("cancelled {} orders", count.get())));
                }
                Action::Select(_) | Action::Redraw | Action::Quit => {}
            }
        });
    }

    async fn enter(&self, trader: &Trader, mut request: OrderRequest) {
        let begun = Instant::now();
        let entered = trader.enter(&mut request).await;
        let took = begun.elapsed();
        let label = request.label.clone().unwrap_or_default();
        match entered {
            Ok(outcome) => {
                let order = &outcome.order;
                let side = &order.direction;
                let text = match order.filled_amount {
                    filled if filled.is_zero() => format!("{side} order {} is {}", order.order_id, order.order_state),
                    filled if filled == order.amount => return self.send(Update::Filled { took }),
                    filled => format!("{side} order {}: {filled} of {} filled", order.order_id, order.amount),
                };
                self.answer(Some(took), Ok(text));
            }
            Err(error) if error.had_no_effect() => self.answer(Some(took), Err(error)),
            Err(error) => {
                self.send(Update::Unknown { label: label.clone() });
                self.answer(None, Err(error));
                let result = match trader.resolve(&label).await {
                    Some(EntryState::Entered { order_id }) => Ok(format!("order {order_id} was entered after all")),
                    Some(EntryState::NotEntered) => Ok(format!("order {label} was not entered")),
                    _ => Err(format!("order {label}: the connection ended before the answer")),
                };
                self.send(Update::Settled { label, result });
            }
        }
    }

    fn answer(&self, took: Option<Duration>, result: Result<String, Error>) {
        let result = result.map_err(|error| Failure::from(error).to_string());
        self.send(Update::Answer { took, result });
    }
}
