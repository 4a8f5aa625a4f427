//! Hidden orders leave no trace: every stream and every snapshot has the same bytes with and
//! without hidden orders that do not trade.

use crate::fixture::StreamFixture;
use pitwire_model::{
    AccountId, Command, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase, SessionReason, Side, Ticks,
    TimeInForce, VenueNanos,
};
use pitwire_random::SplitMix64;
use pitwire_url_streams::StreamId;

const HERE: InstrumentId = InstrumentId(0);
const TARGETS: [&str; 14] = [
    "/ws/npnzar@trade",
    "/ws/npnzar@aggTrade",
    "/ws/npnzar@depth",
    "/ws/npnzar@depth@100ms",
    "/ws/npnzar@depth20@100ms",
    "/ws/npnzar@bookTicker",
    "/ws/npnzar@kline_1m",
    "/ws/npnzar@ticker",
    "/ws/!miniTicker@arr",
    "/message/realtime?subscribe=ORDERBOOK:NPN-ZAR",
    "/message/realtime?subscribe=TRADE:NPN-ZAR",
    "/message/realtime?subscribe=TICKER:NPN-ZAR",
    "/v1/marketdata/npnzar?study=1",
    "/v1/marketdata/npnzar?top_of_book=true",
];
const SNAPSHOTS: [&str; 6] = [
    "/api/v3/depth?symbol=NPNZAR&limit=5000",
    "/api/v3/trades?symbol=NPNZAR",
    "/api/v3/ticker/24hr",
    "/openapi/v1/spot/orderBook?symbol=NPN-ZAR",
    "/v1/book/npnzar",
    "/v2/ticker/npnzar",
];

/// Generates what happens besides hidden orders. An order's number is its position in the list.
fn happening(number: u64, phase: &mut Phase, chance: &mut SplitMix64) -> Command {
    let side = if chance.below(2) == 0 { Side::Buy } else { Side::Sell };
    let price = Ticks(95 + chance.below(10).cast_signed());
    let order = |order_type| NewOrder { id: OrderId(number), side, order_type, lots: Lots(1 + number % 9), ..PLAIN };
    match chance.below(16) {
        0..=2 => Command::Cancel { account: AccountId(0), order: OrderId(chance.below(number.max(1))) },
        3 | 4 => Command::CloseWindow,
        5 => {
            let to = if *phase == Phase::Continuous { Phase::IntradayCall } else { Phase::Continuous };
            *phase = to;
            let reason = SessionReason::Scheduled;
            Command::ChangeSession { instrument: HERE, to, reason, due: VenueNanos::ZERO, ends: None }
        }
        6 => Command::Enter(order(OrderType::Market)),
        7 => Command::Enter(NewOrder { display: Some(Lots(1)), ..order(OrderType::Limit { price }) }),
        _ => Command::Enter(order(OrderType::Limit { price })),
    }
}

const PLAIN: NewOrder = NewOrder { tif: TimeInForce::Day, ..NewOrder::PLAIN };

/// Returns a hidden order that demands more at once than any other order has, so that it never
/// trades.
fn hidden(number: u64, side: Side, chance: &mut SplitMix64) -> NewOrder {
    const MORE: Lots = Lots(4_000_000);
    let price = Ticks(93 + chance.below(14).cast_signed());
    let order_type = OrderType::Hidden { price, minimum_execution: MORE };
    NewOrder { id: OrderId(number), side, order_type, lots: MORE, ..PLAIN }
}

fn join_all(fixture: &mut StreamFixture) -> Vec<(StreamId, Option<String>)> {
    TARGETS
        .iter()
        .map(|target| {
            let stream = fixture.join(target);
            (stream, fixture.first(stream))
        })
        .collect()
}

#[test]
fn hidden_orders_that_do_not_trade_change_no_byte() {
    let (mut rested, mut counts) = (0, [0; TARGETS.len()]);
    for seed in 1..=12 {
        let (mut bare, mut shadowed) = (StreamFixture::new(), StreamFixture::new());
        let (mut chance, mut shadow) = (SplitMix64::new(seed), SplitMix64::new(seed ^ 0xFEED));
        let mut phase = Phase::Continuous;
        let side = if seed % 2 == 0 { Side::Buy } else { Side::Sell };
        assert_eq!(join_all(&mut bare), join_all(&mut shadowed));
        for number in 1..400_u64 {
            // Time follows the list, so that an additional command does not move the later ones.
            (bare.at, shadowed.at) = (number * 37_000_000, number * 37_000_000);
            if shadow.below(6) == 0 {
                let number = 10_000 + number;
                shadowed.apply(Command::Enter(hidden(number, side, &mut shadow)));
                rested += u32::from(shadowed.engine.order(OrderId(number)).is_some());
            }
            let command = happening(number, &mut phase, &mut chance);
            bare.apply(command.clone());
            shadowed.apply(command);
            assert_eq!(bare.sent.by_stream, shadowed.sent.by_stream, "seed {seed}, command {number}");
            for target in SNAPSHOTS.iter().filter(|_| number % 50 == 0) {
                assert_eq!(bare.rest(target), shadowed.rest(target), "{target}");
            }
        }
        let later = (join_all(&mut bare), join_all(&mut shadowed));
        assert_eq!(later.0, later.1, "who joins later");
        for ((stream, _), count) in later.0.iter().zip(&mut counts) {
            *count += bare.received(*stream).len();
        }
    }
    assert!(rested > 300, "{rested} hidden orders rested");
    assert!(counts.iter().all(|count| *count > 10), "a stream that hardly spoke proves nothing: {counts:?}");
}
