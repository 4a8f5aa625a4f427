//! Answers and reports from the venue's state.

use std::collections::HashMap;

use pitwire_deribit::codec::objects::{average_price, cancel_reason_name, phase_state};
use pitwire_deribit::{AccountEvent, AccountEventKind, Venue, book_depth};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, Decimal, InstrumentSpec, OrderId, Side};
use pitwire_projections::{Liquidity, OrderRecord, OrderState, Place, UserTrade, Views};

use crate::codec::{FixedDecimal, Text};
use crate::messages::*;
use crate::requests::{Rejection, market_of, number_of};

/// The session's log numbers the messages.
const UNNUMBERED: u64 = 0;

fn fixed(value: Decimal) -> Option<FixedDecimal> {
    FixedDecimal::of(value)
}

fn is_unelected(order: &OrderRecord) -> bool {
    order.place == Place::Unelected && order.state == OrderState::Open
}

fn status(order: &OrderRecord) -> OrderStatus {
    match order.state {
        OrderState::Open if is_unelected(order) => OrderStatus::Untriggered,
        OrderState::Open => OrderStatus::Open,
        OrderState::Filled => OrderStatus::Filled,
        OrderState::Cancelled => OrderStatus::Cancelled,
    }
}

/// Returns the limit, or the average price paid if the order has none.
fn price(order: &OrderRecord, spec: &InstrumentSpec) -> Option<FixedDecimal> {
    if !order.is_market() {
        return fixed(spec.price(order.price()));
    }
    if is_unelected(order) { None } else { fixed(average_price(spec, order.tick_lots, order.filled)) }
}

/// Returns the answer to a request that entered, changed or ended an order.
///
/// # Errors
///
/// Fails if the account keeps no history of its orders.
pub(crate) fn accepted(
    request_id: u64,
    order: OrderId,
    account: AccountId,
    venue: &dyn Venue,
) -> Result<SbeMessage, Rejection> {
    let record = venue.views().account(account).and_then(|book| book.order(order));
    let found = record.and_then(|record| Some((record, &venue.engine().market(record.instrument)?.spec)));
    let Some((record, spec)) = found else {
        return Err(Rejection::invalid("this account keeps no order history", "Use the account of a member."));
    };
    let accepted = OrderAccepted {
        sequence: UNNUMBERED,
        request_id,
        order_id: order.0,
        client_order_id: Text::new(record.client_order_id.as_str()),
        status: status(record),
        quantity: fixed(spec.amount(record.lots)),
        filled_quantity: fixed(spec.amount(record.filled)),
    };
    Ok(accepted.into())
}

/// Returns a report about an order, with no fill.
fn report(execution_type: ExecutionType, order: &OrderRecord, spec: &InstrumentSpec) -> ExecutionReport {
    ExecutionReport {
        sequence: UNNUMBERED,
        execution_type,
        status: if execution_type == ExecutionType::Triggered { OrderStatus::Triggered } else { status(order) },
        side: if order.side == Side::Buy { OrderSide::Buy } else { OrderSide::Sell },
        liquidity: LiquidityFlag::None,
        instrument_id: number_of(spec.id),
        order_id: order.id.0,
        client_order_id: Text::new(order.client_order_id.as_str()),
        price: price(order, spec),
        quantity: fixed(spec.amount(order.lots)),
        filled_quantity: fixed(spec.amount(order.filled)),
        last_price: None,
        last_quantity: None,
        trade_sequence: 0,
        transact_time_ms: order.updated.as_millis(),
        cancel_reason: Text::new(order.cancel_reason.map_or("", cancel_reason_name)),
    }
}

fn fill_report(fill: &UserTrade, order: &OrderRecord, spec: &InstrumentSpec) -> ExecutionReport {
    ExecutionReport {
        liquidity: match fill.liquidity {
            Liquidity::Maker => LiquidityFlag::Added,
            Liquidity::Taker => LiquidityFlag::Removed,
        },
        last_price: fixed(spec.price(fill.trade.price)),
        last_quantity: fixed(spec.amount(fill.trade.lots)),
        trade_sequence: fill.trade.seq.0,
        transact_time_ms: fill.trade.at.as_millis(),
        ..report(ExecutionType::Trade, order, spec)
    }
}

fn change_type(order: &OrderRecord) -> ExecutionType {
    match order.state {
        OrderState::Open if order.replaced => ExecutionType::Amended,
        OrderState::Open => ExecutionType::New,
        OrderState::Cancelled => ExecutionType::Cancelled,
        OrderState::Filled => ExecutionType::Restated,
    }
}

/// Summary of the events of one order.
#[derive(Clone, Copy, Default)]
struct OrderChanges {
    has_fill: bool,
    /// Place of the event with its last state.
    last: Option<usize>,
}

/// Returns the reports of changes of one account: each fill, then the state of an order that its
/// fills do not describe in full. Also returns the number of fills without a known order.
pub(crate) fn execution_reports(
    account: AccountId,
    events: &[AccountEvent],
    engine: &Engine,
    views: &Views,
) -> (Vec<ExecutionReport>, u64) {
    let mut changes: HashMap<OrderId, OrderChanges> = HashMap::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        match &event.kind {
            AccountEventKind::Fill(fill) => changes.entry(fill.order).or_default().has_fill = true,
            AccountEventKind::Order { record, triggers: false } => {
                changes.entry(record.id).or_default().last = Some(at);
            }
            _ => {}
        }
    }
    let (mut reports, mut lost) = (Vec::with_capacity(events.len()), 0);
    for (at, event) in events.iter().enumerate() {
        let report = match &event.kind {
            AccountEventKind::Fill(fill) => {
                let order = views.account(account).and_then(|book| book.order(fill.order));
                let market = engine.market(fill.instrument);
                order.zip(market).map(|(order, market)| fill_report(fill, order, &market.spec))
            }
            AccountEventKind::Order { record, triggers } => {
                let known = changes.get(&record.id).copied().unwrap_or_default();
                let is_described = known.has_fill && record.state != OrderState::Cancelled;
                let kind = if *triggers {
                    ExecutionType::Triggered
                } else if known.last == Some(at) && !is_described {
                    change_type(record)
                } else {
                    continue;
                };
                engine.market(record.instrument).map(|market| report(kind, record, &market.spec))
            }
            AccountEventKind::Report(_) | AccountEventKind::Money => continue,
        };
        match report {
            Some(report) => reports.push(report),
            None => lost += 1,
        }
    }
    (reports, lost)
}

/// Returns the answer to a market query.
///
/// # Errors
///
/// Fails if no instrument has the number.
pub(crate) fn market_answer(query: &MarketQuery, venue: &dyn Venue) -> Result<SbeMessage, Rejection> {
    let &MarketQuery { request_id, instrument_id, subject, depth } = query;
    let sequence = UNNUMBERED;
    let market = market_of(venue.engine(), instrument_id)?;
    let spec = &market.spec;
    let session = || venue.views().session(spec.id).ok_or_else(|| Rejection::unknown_instrument(instrument_id));
    Ok(match subject {
        QuerySubject::BestPrices => {
            let [bid, ask] = [Side::Buy, Side::Sell].map(|side| market.best(side));
            BestPrices {
                sequence,
                request_id,
                instrument_id,
                bid_price: bid.and_then(|(price, _)| fixed(spec.price(price))),
                bid_quantity: bid.and_then(|(_, lots)| fixed(spec.amount(lots))),
                ask_price: ask.and_then(|(price, _)| fixed(spec.price(price))),
                ask_quantity: ask.and_then(|(_, lots)| fixed(spec.amount(lots))),
            }
            .into()
        }
        QuerySubject::Book => {
            let depth = book_depth(depth.into());
            let levels =
                [(OrderSide::Buy, Side::Buy), (OrderSide::Sell, Side::Sell)].into_iter().flat_map(|(side, of_book)| {
                    market.book().levels(of_book).take(depth).map(move |(price, lots)| SbeLevel {
                        side,
                        price: fixed(spec.price(price)),
                        quantity: fixed(spec.amount(lots)),
                    })
                });
            Book { sequence, request_id, instrument_id, levels: levels.collect() }.into()
        }
        QuerySubject::Vwap => {
            let trades = session()?.day.vwap().and_then(|vwap| fixed(spec.price(vwap)));
            let [bid, ask] = [Side::Buy, Side::Sell].map(|side| {
                let vwap = market.book_vwap(side)?;
                fixed(spec.price(vwap))
            });
            Vwap { sequence, request_id, instrument_id, trades, bid, ask }.into()
        }
        QuerySubject::Status => {
            let phase = session()?.phase;
            let (session, state) = (Text::new(phase.name()), Text::new(phase_state(phase)));
            InstrumentStatus { sequence, request_id, instrument_id, session, state }.into()
        }
    })
}
