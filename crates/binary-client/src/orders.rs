//! The life of an order, with two accounts that trade with each other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use pitwire_failure::Failure;
use pitwire_sbe_gateway::*;

use crate::session::{EntryEvent, Login, OrderEntrySession, limit_order};

/// Units of a quantity of one.
const ONE: i64 = 100_000_000;

/// Enters, trades, amends, queries and cancels orders, and prints each message.
///
/// # Errors
///
/// Fails if a session fails, or if the venue does not accept the first order.
pub fn run(
    address: SocketAddr,
    instrument: u32,
    price: FixedDecimal,
    maker: Login,
    taker: Login,
) -> Result<(), Failure> {
    let (mut maker, mut taker) = (Member::log_on(address, maker)?, Member::log_on(address, taker)?);
    // A repeated order with the same number is not entered twice.
    let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let entry = |number: u32, side, lots| {
        let client_order_id = format!("{run}-{number}");
        move |request| limit_order(request, &client_order_id, instrument, side, FixedDecimal(lots * ONE), price)
    };
    let entered = maker.request(entry(1, OrderSide::Buy, 10))?;
    let Some(order_id) = maker.orders.get(&entered).copied() else {
        return Err(Failure::new("the venue did not accept the order").remedy("see the reject above"));
    };
    taker.request(entry(2, OrderSide::Sell, 4))?;
    maker.await_report(order_id, ExecutionType::Trade)?;
    maker.request(|request_id| AmendOrder {
        request_id,
        order_id,
        quantity: Some(FixedDecimal(12 * ONE)),
        price: Some(price),
        trigger_price: None,
        display_quantity: None,
        minimum_quantity: None,
    })?;
    for subject in [QuerySubject::BestPrices, QuerySubject::Book, QuerySubject::Vwap, QuerySubject::Status] {
        maker.request(|request_id| MarketQuery { request_id, instrument_id: instrument, subject, depth: 10 })?;
    }
    maker.request(|request_id| CancelOrder { request_id, order_id })?;
    maker.await_report(order_id, ExecutionType::Cancelled)?;
    // The venue rejects it: the order has ended.
    maker.request(|request_id| CancelOrder { request_id, order_id })?;
    for number in [3, 4] {
        maker.session.request(entry(number, OrderSide::Buy, 1));
    }
    let scope = MassCancelScope::Instrument;
    maker.request(|request_id| MassCancel { request_id, scope, instrument_id: instrument })?;
    Ok(())
}

/// A session that prints its messages, and remembers orders and reports.
struct Member {
    name: String,
    session: OrderEntrySession,
    /// Order ids by the requests that entered the orders.
    orders: HashMap<u64, u64>,
    reports: Vec<(u64, ExecutionType)>,
}

impl Member {
    fn log_on(address: SocketAddr, login: Login) -> Result<Member, Failure> {
        let name = login.client_id.clone();
        let session = OrderEntrySession::log_on(address, login)?;
        Ok(Member { name, session, orders: HashMap::new(), reports: Vec::new() })
    }

    /// Sends a request and waits for its answer. Returns the number of the request.
    fn request<M: Into<SbeMessage>>(&mut self, build: impl FnOnce(u64) -> M) -> Result<u64, Failure> {
        let request = self.session.request(build);
        while !self.session.is_answered(request) {
            self.take_event()?;
        }
        // The answer and the messages before it may have come together.
        while self.session.has_event() {
            self.take_event()?;
        }
        Ok(request)
    }

    fn await_report(&mut self, order_id: u64, execution_type: ExecutionType) -> Result<(), Failure> {
        while !self.reports.contains(&(order_id, execution_type)) {
            self.take_event()?;
        }
        Ok(())
    }

    fn take_event(&mut self) -> Result<(), Failure> {
        if let Some(event) = self.session.poll()? {
            match &event {
                EntryEvent::Message(SbeMessage::OrderAccepted(accepted)) => {
                    self.orders.insert(accepted.request_id, accepted.order_id);
                }
                EntryEvent::Message(SbeMessage::ExecutionReport(report)) => {
                    self.reports.push((report.order_id, report.execution_type));
                }
                _ => {}
            }
            for line in describe(&event) {
                println!("{} {line}", self.name);
            }
        }
        Ok(())
    }
}

fn describe(event: &EntryEvent) -> Vec<String> {
    let EntryEvent::Message(message) = event else { return vec!["lost messages: query the orders".into()] };
    let line = match message {
        SbeMessage::OrderAccepted(accepted) => format!(
            "accepted order {} {:?} quantity {} filled {}",
            accepted.order_id,
            accepted.status,
            decimal(accepted.quantity),
            decimal(accepted.filled_quantity)
        ),
        SbeMessage::ExecutionReport(report) => format!(
            "report order {} {:?} {:?} {:?} price {} filled {} last {} @ {}",
            report.order_id,
            report.execution_type,
            report.status,
            report.side,
            decimal(report.price),
            decimal(report.filled_quantity),
            decimal(report.last_quantity),
            decimal(report.last_price)
        ),
        SbeMessage::Reject(Reject { code, name, reason, remedy, .. }) => {
            format!("reject {code} {name}: {reason}; {remedy}")
        }
        SbeMessage::MassCancelAccepted(accepted) => format!("cancelled {} orders", accepted.cancelled),
        SbeMessage::BestPrices(prices) => format!(
            "best bid {} @ {} ask {} @ {}",
            decimal(prices.bid_quantity),
            decimal(prices.bid_price),
            decimal(prices.ask_quantity),
            decimal(prices.ask_price)
        ),
        SbeMessage::Vwap(vwap) => {
            format!("vwap trades {} bid {} ask {}", decimal(vwap.trades), decimal(vwap.bid), decimal(vwap.ask))
        }
        SbeMessage::Book(book) => {
            let level = |level: &SbeLevel| {
                format!("level {:?} {} @ {}", level.side, decimal(level.quantity), decimal(level.price))
            };
            return book.levels.iter().map(level).collect();
        }
        SbeMessage::InstrumentStatus(status) => {
            format!("status {} {}", status.session.as_str(), status.state.as_str())
        }
        other => other.name().to_owned(),
    };
    vec![line]
}

fn decimal(value: Option<FixedDecimal>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}
