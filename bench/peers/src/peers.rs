//! One function for each book: translate, run, count.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use pitwire_benchmarks::engine::Matcher;
use pitwire_benchmarks::engine::bare_book::BareBook;
use pitwire_benchmarks::engine::operations::{Operation, OperationKind};
use pitwire_benchmarks::engine::reports::Reports;
use pitwire_model::Side;
use rustix::time::{ClockId, clock_gettime};

use crate::Run;

/// Processor time of this thread, so that other load of the machine counts as little as possible.
fn busy() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

pub fn ours(operations: &[Operation]) -> Run {
    let mut book = BareBook::new(operations.len());
    let mut reports = Reports::with_room_for(operations.len());
    let started = busy();
    for (seq, operation) in (0_u32..).zip(operations) {
        book.apply(seq, operation, &mut reports);
    }
    let seconds = (busy() - started).as_secs_f64();
    Run { seconds, traded: reports.traded_lots() }
}

/// Numbers of orders in books that count entries from `first`. A cancel gets the number of its
/// order. With `every`, the book counts every operation.
fn renumbered(operations: &[Operation], first: u64, every: bool) -> Vec<u64> {
    let mut numbers = BTreeMap::new();
    let mut next = first;
    operations
        .iter()
        .map(|operation| {
            let number = if operation.kind == OperationKind::Cancel {
                // An order never entered: a number that is not given in a run of this length.
                numbers.get(&operation.id).copied().unwrap_or(u64::MAX >> 1)
            } else {
                numbers.insert(operation.id, next);
                next
            };
            next += u64::from(every || operation.kind != OperationKind::Cancel);
            number
        })
        .collect()
}

pub fn matchcore(operations: &[Operation]) -> Run {
    use matchcore::*;

    let side = |side| if side == pitwire_model::Side::Buy { Side::Buy } else { Side::Sell };
    let numbers = renumbered(operations, 0, true);
    let commands: Vec<Command> = (0_u64..)
        .zip(operations.iter().zip(numbers))
        .map(|(seq, (operation, number))| {
            let quantity = Quantity(operation.quantity.into());
            let limit = |tif| {
                NewOrder::Limit(LimitOrder::new(
                    Price(operation.price.into()),
                    QuantityPolicy::Standard { quantity },
                    OrderFlags::new(side(operation.side), false, tif),
                ))
            };
            let submit = |order| CommandKind::Submit(SubmitCmd { order });
            let kind = match operation.kind {
                OperationKind::Cancel => {
                    CommandKind::Cancel(CancelCmd { order_id: OrderId(number), order_kind: OrderKind::Limit })
                }
                OperationKind::Market => submit(NewOrder::Market(MarketOrder::new(quantity, side(operation.side), false))),
                OperationKind::Immediate => submit(limit(TimeInForce::Ioc)),
                OperationKind::Limit | OperationKind::Replace => submit(limit(TimeInForce::Gtc)),
            };
            Command { meta: CommandMeta { sequence_number: SequenceNumber(seq), timestamp: Timestamp(seq) }, kind }
        })
        .collect();
    let mut book = OrderBook::new("BENCH");
    let mut traded = 0;
    let started = busy();
    for command in &commands {
        let outcome = black_box(book.execute(command));
        if let CommandOutcome::Applied(CommandReport::Submit(effects)) = &outcome {
            traded += effects.target_order().match_result().map_or(0, |result| result.executed_quantity().0);
        }
    }
    Run { seconds: (busy() - started).as_secs_f64(), traded }
}

pub fn nanobook(operations: &[Operation]) -> Run {
    use nanobook::{Exchange, OrderId, Price, Side as Theirs, TimeInForce};

    let numbers = renumbered(operations, 1, false);
    let mut book = Exchange::new();
    let mut traded = 0;
    let started = busy();
    for (operation, number) in operations.iter().zip(&numbers) {
        let side = if operation.side == Side::Buy { Theirs::Buy } else { Theirs::Sell };
        let (price, quantity) = (Price(operation.price.into()), u64::from(operation.quantity));
        let result = match operation.kind {
            OperationKind::Cancel => {
                black_box(book.cancel(OrderId(*number)));
                continue;
            }
            OperationKind::Market => book.submit_market(side, quantity),
            OperationKind::Immediate => book.submit_limit(side, price, quantity, TimeInForce::IOC),
            OperationKind::Limit | OperationKind::Replace => book.submit_limit(side, price, quantity, TimeInForce::GTC),
        };
        traded += black_box(result).filled_quantity;
    }
    Run { seconds: (busy() - started).as_secs_f64(), traded }
}

pub fn orderbook_rs(operations: &[Operation]) -> Run {
    use orderbook_rs::{DefaultOrderBook, Id, Side as Theirs, TimeInForce};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let run = |book: &DefaultOrderBook| {
        let started = busy();
        for operation in operations {
            let side = if operation.side == Side::Buy { Theirs::Buy } else { Theirs::Sell };
            let (id, price, quantity) = (Id::from_u64(operation.id), operation.price.into(), operation.quantity.into());
            match operation.kind {
                OperationKind::Cancel => _ = black_box(book.cancel_order(id)),
                OperationKind::Market => _ = black_box(book.submit_market_order(id, quantity, side)),
                OperationKind::Immediate => {
                    _ = black_box(book.add_limit_order(id, price, quantity, side, TimeInForce::Ioc, None));
                }
                OperationKind::Limit | OperationKind::Replace => {
                    _ = black_box(book.add_limit_order(id, price, quantity, side, TimeInForce::Gtc, None));
                }
            }
        }
        (busy() - started).as_secs_f64()
    };
    // This book reports trades to listeners only. Listeners cost time, so they are in a separate
    // run.
    let traded = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&traded);
    run(&DefaultOrderBook::with_trade_listener(
        "BENCH",
        Arc::new(move |result| {
            counter
                .fetch_add(result.match_result.executed_quantity().map_or(0, |lots| lots.as_u64()), Ordering::Relaxed);
        }),
    ));
    let seconds = run(&DefaultOrderBook::new("BENCH"));
    Run { seconds, traded: traded.load(Ordering::Relaxed) }
}
