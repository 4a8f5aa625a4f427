//! Measures the cost of streams per command on the venue thread: `cargo run --release -p
//! pitwire-url-streams --example cost`.
//!
//! Uses one instrument like the demo's, orders and cancels around a price, and a window for every
//! hundred commands. Prints the time within [`Streams::observe`] alone, and the number of messages.

use pitwire_fixtures::{open_market, share};
use pitwire_random::SplitMix64;
use std::time::Instant;

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, Command, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Seq, SequencedCommand, Side, Ticks,
    TimeInForce, VenueNanos,
};
use pitwire_projections::Views;
use pitwire_url_streams::{NumberPosition, Sink, Stamps, StreamId, StreamSession, Streams};

#[derive(Default)]
struct Count {
    messages: u64,
    bytes: u64,
}

impl Sink for Count {
    fn send(&mut self, _: StreamId, payload: &[u8], _: Option<NumberPosition>) {
        self.messages += 1;
        self.bytes += payload.len() as u64;
    }
    fn stamps(&mut self, at: VenueNanos) -> Stamps {
        Stamps { due_ns: at.0, mono_ns: at.0, ts_ns: at.0 }
    }
}

fn set_up() -> Vec<Command> {
    let spec = InstrumentSpec { start_price: Ticks(100_000), max_resting_orders: 100_000, ..share() };
    open_market(spec).collect()
}

/// Generates orders, half of which are cancelled later, and windows.
fn flow(commands: u64) -> Vec<Command> {
    let mut random = SplitMix64::new(7);
    let mut below = |bound: u64| random.below(bound);
    let first = set_up().len() as u64;
    let mut all = set_up();
    for at in 0..commands {
        let id = OrderId(first + at + 1);
        all.push(match at % 100 {
            99 => Command::CloseWindow,
            n if n % 2 == 1 => Command::Cancel { account: AccountId(0), order: OrderId(id.0 - 1 - below(100).min(at)) },
            _ => Command::Enter(NewOrder {
                id,
                side: if below(2) == 0 { Side::Buy } else { Side::Sell },
                order_type: OrderType::Limit { price: Ticks(100_000 + below(60).cast_signed() - 30) },
                lots: Lots(1 + below(50)),
                tif: TimeInForce::GoodTillCancel,
                ..NewOrder::PLAIN
            }),
        });
    }
    all
}

fn main() {
    let commands = flow(400_000);
    for targets in [
        &[][..],
        &["/ws/npnzar@trade"],
        &["/ws/npnzar@trade/npnzar@depth@100ms/npnzar@bookTicker"],
        &["/message/realtime?subscribe=ORDERBOOK:NPN-ZAR"],
        &["/v1/marketdata/npnzar?study=1"],
        &[
            "/ws/npnzar@trade/npnzar@aggTrade/npnzar@depth/npnzar@depth@100ms/npnzar@depth20@100ms/npnzar@bookTicker\
             /npnzar@kline_1m/npnzar@ticker/npnzar@miniTicker",
            "/stream?streams=npnzar@trade/npnzar@depth@100ms&ts=ns",
            "/message/realtime?subscribe=ORDERBOOK:NPN-ZAR,TRADE:NPN-ZAR,TICKER:NPN-ZAR",
            "/v1/marketdata/npnzar?study=1",
        ],
    ] {
        let (mut engine, mut views) = (Engine::new(), Views::new());
        let mut streams = Streams::new(&engine, &views);
        let (mut count, mut spent_ns, mut events) = (Count::default(), 0, Vec::new());
        for (seq, command) in (1_u64..).zip(&commands) {
            if seq == 6 {
                for target in targets {
                    let (path, query) = target.split_once('?').unwrap_or((target, ""));
                    if let Some(Ok(opened)) = StreamSession::open(path, query, streams.directory()) {
                        for key in opened.join {
                            let _ = streams.listen(key, &engine);
                        }
                    }
                }
            }
            events.clear();
            let stamped = SequencedCommand { seq: Seq(seq), at: VenueNanos(seq * 1_000_000), command: command.clone() };
            engine.apply(&stamped, &mut events);
            views.observe(&stamped, &events, &mut Vec::new());
            let began = Instant::now();
            streams.observe(&stamped, &events, &engine, &views, &mut count);
            spent_ns += began.elapsed().as_nanos();
        }
        let per = spent_ns / commands.len() as u128;
        println!("{per:>5} ns a command, {} messages, {} bytes: {targets:?}", count.messages, count.bytes);
    }
}
