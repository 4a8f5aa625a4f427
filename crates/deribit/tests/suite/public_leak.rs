//! Hidden orders leave no trace: every public channel publishes the same bytes with and without a
//! hidden order that never trades.

use crate::market::{MarketFixture, Reader};
use pitwire_model::{
    AccountId, Amend, Command, Event, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase, SessionReason, Side,
    Ticks, TimeInForce, VenueNanos,
};
use pitwire_random::SplitMix64;
use serde_json::Value;

const HERE: InstrumentId = InstrumentId(0);
const CHANNELS: [&str; 17] = [
    "book.NPN_ZAR.raw",
    "book.NPN_ZAR.100ms",
    "book.NPN_ZAR.none.10.100ms",
    "trades.NPN_ZAR.raw",
    "trades.NPN_ZAR.agg2",
    "trades.any.any.raw",
    "ticker.NPN_ZAR.raw",
    "ticker.NPN_ZAR.100ms",
    "quote.NPN_ZAR",
    "chart.trades.NPN_ZAR.1",
    "instrument.state.any.any",
    "session.NPN_ZAR",
    "auction.NPN_ZAR",
    "auction.NPN_ZAR.100ms",
    "auction.NPN_ZAR.agg2",
    "book.NPN_ZAR.agg2",
    "ticker.NPN_ZAR.agg2",
];

/// Returns the commands apart from the hidden orders. Order ids are positions in this list, so that
/// they do not depend on the hidden orders.
fn happenings(seed: u64) -> Vec<Command> {
    let mut chance = SplitMix64::new(seed);
    let mut phase = Phase::Continuous;
    let mut all = Vec::new();
    for at in 0..300_u64 {
        let side = if chance.below(2) == 0 { Side::Buy } else { Side::Sell };
        let earlier = OrderId(chance.below(at.max(1)));
        all.push(match chance.below(20) {
            0 | 1 => Command::Cancel { account: AccountId(0), order: earlier },
            2 => Command::Amend(Amend {
                account: AccountId(0),
                order: earlier,
                price: Ticks(95 + chance.below(10).cast_signed()),
                lots: Lots(1 + chance.below(9)),
                ..Amend::PLAIN
            }),
            3 | 4 => Command::CloseWindow,
            5 => {
                let to = match (phase, chance.below(3)) {
                    (Phase::Continuous, 0) => Phase::IntradayCall,
                    (Phase::Continuous, 1) => Phase::Pause,
                    (Phase::Continuous, _) => Phase::Halted,
                    (Phase::Pause, 0) => Phase::ReopeningCall,
                    _ => Phase::Continuous,
                };
                phase = to;
                let (reason, due) = (SessionReason::Scheduled, VenueNanos::ZERO);
                Command::ChangeSession { instrument: HERE, to, reason, due, ends: None }
            }
            6 => Command::FilterHidden { instrument: HERE },
            what => {
                let order_type = match what {
                    7 => OrderType::Market,
                    8 => OrderType::Stop { stop: Ticks(95 + chance.below(10).cast_signed()) },
                    _ => OrderType::Limit { price: Ticks(95 + chance.below(10).cast_signed()) },
                };
                let display = (what == 9).then_some(Lots(1));
                Command::Enter(order(at, side, order_type, 1 + chance.below(9), display))
            }
        });
    }
    all
}

fn order(number: u64, side: Side, order_type: OrderType, lots: u64, display: Option<Lots>) -> NewOrder {
    NewOrder {
        id: OrderId(number),
        account: AccountId(0),
        instrument: HERE,
        side,
        order_type,
        lots: Lots(lots),
        tif: TimeInForce::Day,
        display,
        ..NewOrder::PLAIN
    }
}

/// Returns a hidden order that never trades: its minimum execution exceeds all other orders. All
/// hidden orders of a run have the same side, so that they do not trade with each other.
fn hidden(number: u64, side: Side, chance: &mut SplitMix64) -> NewOrder {
    const MORE: u64 = 4_000_000;
    let price = Ticks(93 + chance.below(14).cast_signed());
    order(number, side, OrderType::Hidden { price, minimum_execution: Lots(MORE) }, MORE, None)
}

struct Run {
    fixture: MarketFixture,
    readers: Vec<Reader>,
    received: Vec<(usize, Value)>,
}

impl Run {
    fn new() -> Run {
        let mut fixture = MarketFixture::new();
        let readers = CHANNELS.iter().map(|name| Reader::join(&mut fixture, name)).collect();
        Run { fixture, readers, received: Vec::new() }
    }

    fn listen(&mut self) {
        for (channel, reader) in self.readers.iter_mut().enumerate() {
            self.received.extend(reader.read(&mut self.fixture).into_iter().map(|counts| (channel, counts)));
        }
    }

    fn play(&mut self, at: u64, command: Command) {
        // Venue time follows the position in the list, so that an additional command does not move
        // it.
        self.fixture.at = at * 37_000_000;
        self.fixture.apply(command);
        self.listen();
    }
}

#[test]
fn hidden_orders_without_trades_change_no_public_message() {
    let mut rested = 0;
    let mut counts = [0; CHANNELS.len()];
    for seed in 1..=20 {
        let (mut bare, mut shadowed) = (Run::new(), Run::new());
        let mut chance = SplitMix64::new(seed ^ 0xFEED);
        let side = if seed % 2 == 0 { Side::Buy } else { Side::Sell };
        for (at, command) in (0..).zip(happenings(seed)) {
            if chance.below(6) == 0 {
                let number = 10_000 + at;
                shadowed.play(at, Command::Enter(hidden(number, side, &mut chance)));
                rested += u32::from(shadowed.fixture.engine.order(OrderId(number)).is_some());
            }
            bare.play(at, command.clone());
            shadowed.play(at, command);
            assert_eq!(bare.received, shadowed.received, "seed {seed}, command {at}");
        }
        bare.received.iter().for_each(|(channel, _)| counts[*channel] += 1);
        let late = |fixture: &mut MarketFixture| CHANNELS.map(|name| Reader::join(fixture, name).first);
        assert_eq!(late(&mut bare.fixture), late(&mut shadowed.fixture), "who joins later, seed {seed}");
    }
    assert!(rested > 300, "{rested} hidden orders rested");
    assert!(counts.iter().all(|count| *count > 50), "a channel that hardly spoke proves nothing: {counts:?}");
}

/// Shows that the test above can fail: a channel fed from a private event publishes something else.
#[test]
fn leak_of_private_event_is_detected() {
    let (mut bare, mut leaky) = (Run::new(), Run::new());
    bare.listen();
    leaky.fixture.observe(&[Event::Level { instrument: HERE, side: Side::Buy, price: Ticks(40), lots: Lots(5) }]);
    leaky.fixture.observe(&[Event::BookChanged { instrument: HERE, change_id: 7 }]);
    leaky.listen();
    assert_ne!(bare.received, leaky.received);
}
