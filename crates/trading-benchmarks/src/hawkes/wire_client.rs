//! One client over the wire: its orders, its market data and its process.
//!
//! Start at    [`WireClient::run_paper`] and [`WireClient::run_pipelined`].

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::{
    BookEvent, BookSubscription, Error, OrderOutcome, OrderRequest, OrderType, Side, TimeInForce, Value,
    VenueConnection,
};
use pitwire_model::{Lots, Ticks};
use pitwire_order_flow::{PaperClient, Proposal, TopOfBook};
use tokio::time::timeout;

use crate::pacing::DueTimes;

/// Longest wait for the answer and the market-data update of one order.
const PATIENCE: Duration = Duration::from_secs(30);
/// Orders that are sent before the client looks at answers and market data.
const ORDERS_PER_WRITE: usize = 64;
/// Events that are drawn for one order. An event without an order needs a book to trade with.
const EVENTS_PER_ORDER: usize = 100;

/// A client with a stock.
pub struct WireClient {
    pub orders: VenueConnection,
    pub book: BookSubscription,
    pub flow: PaperClient,
    pub instrument: String,
    /// Counts the orders of a run.
    pub progress: Arc<BenchProgress>,
}

/// The result of one client.
pub struct ClientFigures {
    pub latencies: Latencies,
    pub orders: u64,
    pub refused: u64,
    pub ended_at: Instant,
}

impl ClientFigures {
    fn new() -> Self {
        ClientFigures { latencies: Latencies::new(), orders: 0, refused: 0, ended_at: Instant::now() }
    }
}

impl WireClient {
    /// Enters orders and waits until the book shows the last one.
    ///
    /// # Errors
    ///
    /// As [`WireClient::run_paper`].
    pub async fn enter_seeds(&mut self, seeds: &[Proposal]) -> Result<(), Error> {
        for seed in seeds {
            self.enter_and_wait(*seed).await?;
        }
        Ok(())
    }

    /// Sends `count` orders. Each waits for a market-data update after the one before.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, or if an answer or an update does not arrive in time.
    pub async fn run_paper(mut self, count: u64) -> Result<ClientFigures, Error> {
        let mut figures = ClientFigures::new();
        while figures.orders < count {
            self.progress.add(1);
            let Some(proposal) = self.propose() else {
                figures.orders += 1;
                figures.refused += 1;
                continue;
            };
            let started = Instant::now();
            let is_accepted = self.enter_and_wait(proposal).await?;
            figures.latencies.record(nanoseconds(started.elapsed()));
            figures.orders += 1;
            figures.refused += u64::from(!is_accepted);
        }
        figures.ended_at = Instant::now();
        Ok(figures)
    }

    /// Sends orders at a rate and does not wait for their answers. Orders that are due together
    /// leave in one write, and the client reads all answers and updates that have arrived.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, or if an answer does not arrive.
    pub async fn run_pipelined(
        mut self,
        orders: &[Proposal],
        rate: NonZeroU64,
        start: Instant,
    ) -> Result<ClientFigures, Error> {
        let mut figures = ClientFigures::new();
        let mut due_times = DueTimes::new(rate, orders.len() as u64, start)?;
        let mut calls = self.orders.pipeline();
        let mut unsent = orders.iter();
        loop {
            for _ in 0..ORDERS_PER_WRITE {
                let Some(number) = due_times.take_due() else { break };
                let Some(proposal) = unsent.next() else { break };
                let request = self.request(*proposal);
                calls.send(number, request.side.method(), &request.params()).await?;
                figures.orders += 1;
                self.progress.add(1);
            }
            while let Some(answer) = calls.try_next() {
                figures.take(due_times.due(answer.number), answer.result.map(drop), Instant::now())?;
            }
            while let Some(event) = self.book.next().now_or_never() {
                event?;
            }
            let is_sending = unsent.len() > 0;
            if !is_sending && calls.pending() == 0 {
                break;
            }
            if due_times.is_due() {
                // The connections write and read now.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                event = self.book.next() => drop(event?),
                is_due = due_times.wait(), if is_sending => is_due?,
                Some(answer) = calls.next() => {
                    figures.take(due_times.due(answer.number), answer.result.map(drop), Instant::now())?;
                }
            }
        }
        figures.ended_at = Instant::now();
        Ok(figures)
    }

    /// Enters an order, and waits for its answer and for an update of the book. Returns whether the
    /// venue accepted it. An order that changes nothing has no update.
    async fn enter_and_wait(&mut self, proposal: Proposal) -> Result<bool, Error> {
        let request = self.request(proposal);
        let work = async {
            let params = request.params();
            let mut entered = pin!(self.orders.query::<_, OrderOutcome>(request.side.method(), &params));
            let (mut changes_book, mut is_accepted, mut is_updated) = (None, false, false);
            while changes_book != Some(false) && !(changes_book.is_some() && is_updated) {
                tokio::select! {
                    answer = &mut entered, if changes_book.is_none() => match answer {
                        Ok(outcome) => {
                            is_accepted = true;
                            changes_book = Some(outcome.order.is_open() || !outcome.trades.is_empty());
                        }
                        Err(Error::Venue(_)) => changes_book = Some(false),
                        Err(error) => return Err(error),
                    },
                    event = self.book.next(), if !is_updated => {
                        is_updated = matches!(event?, BookEvent::Changed | BookEvent::Snapshot);
                    }
                }
            }
            Ok(is_accepted)
        };
        let silent = || Error::Unanswered { method: "the order".into(), cause: format!("no update in {PATIENCE:?}") };
        timeout(PATIENCE, work).await.map_err(|_| silent())?
    }

    fn propose(&mut self) -> Option<Proposal> {
        let book = self.book.book();
        let top = TopOfBook { bid: top(book.bids().next()), ask: top(book.asks().next()), is_full: false };
        (0..EVENTS_PER_ORDER).find_map(|_| self.flow.propose(&top))
    }

    fn request(&self, proposal: Proposal) -> OrderRequest {
        let side = match proposal.side {
            pitwire_model::Side::Buy => Side::Buy,
            pitwire_model::Side::Sell => Side::Sell,
        };
        let limit = proposal.order_type.limit_price().and_then(|price| number(&price_text(price)));
        let order_type = limit.map_or(OrderType::Market, |price| OrderType::Limit { price });
        let tif = matches!(order_type, OrderType::Market).then_some(TimeInForce::ImmediateOrCancel);
        // A number of lots is a positive decimal number.
        let amount = number(&proposal.lots.0.max(1).to_string()).expect("lots are a number");
        OrderRequest { time_in_force: tif, ..OrderRequest::new(side, self.instrument.clone(), amount, order_type) }
    }
}

impl ClientFigures {
    fn take(&mut self, due: Instant, answer: Result<(), Error>, at: Instant) -> Result<(), Error> {
        match answer {
            Ok(()) => {}
            Err(Error::Venue(_)) => self.refused += 1,
            Err(error) => return Err(error),
        }
        self.latencies.record(nanoseconds(at.saturating_duration_since(due)));
        Ok(())
    }
}

fn number(text: &str) -> Option<pitwire_client::Number> {
    text.parse().ok()
}

/// Returns a price in ticks of 0.01 as a decimal number.
fn price_text(price: Ticks) -> String {
    format!("{}.{:02}", price.0 / 100, price.0 % 100)
}

/// Converts a level of the client's book to ticks of 0.01 and to lots of 1.
fn top(level: Option<(Value, Value)>) -> Option<(Ticks, Lots)> {
    let (price, amount) = level?;
    let (tick, lot) = (Value::parse("0.01")?, Value::parse("1")?);
    Some((Ticks(price.steps(tick)?), Lots(u64::try_from(amount.steps(lot)?).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_the_wire_are_ticks() {
        assert_eq!(price_text(Ticks(25_005)), "250.05");
        let value = |text| Value::parse(text).unwrap();
        assert_eq!(top(Some((value("250.05"), value("1200")))), Some((Ticks(25_005), Lots(1200))));
    }
}
