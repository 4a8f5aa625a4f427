//! One command trades at most 100 times with one iceberg: the smallest display bounds its parts.

use crate::common::world::{MEMBERS, NPN_ZAR, Stamper, apply, opening_commands};
use pitwire_engine::Engine;
use pitwire_model::{Command, Event, Lots, NewOrder, OrderId, OrderType, Reject, Side, Ticks};

const LARGE: u64 = 5_000_000;

const WEALTH: i128 = 1 << 80;

fn order(id: u64, side: Side, lots: u64, display: Option<u64>) -> Command {
    let (account, order_type) = (MEMBERS[usize::from(side == Side::Sell)], OrderType::Limit { price: Ticks(100) });
    let (lots, display) = (Lots(lots), display.map(Lots));
    let id = OrderId(id);
    Command::Enter(NewOrder { id, account, instrument: NPN_ZAR, side, order_type, lots, display, ..NewOrder::PLAIN })
}

/// Enters offers with these displays and a bid for all of them. Returns the number of trades.
fn trades_with(icebergs: u64, display: u64) -> usize {
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    for command in opening_commands(u32::MAX, WEALTH) {
        apply(&mut engine, &stamper.stamp(command));
    }
    for id in 1..=icebergs {
        let events = apply(&mut engine, &stamper.stamp(order(id, Side::Sell, LARGE, Some(display))));
        assert!(matches!(events[0], Event::Accepted { .. }), "{events:?}");
    }
    let events = apply(&mut engine, &stamper.stamp(order(999, Side::Buy, icebergs * LARGE, None)));
    events.iter().filter(|event| matches!(event, Event::Trade { .. })).count()
}

#[test]
fn display_of_one_lot_is_refused_for_a_large_iceberg() {
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    for command in opening_commands(u32::MAX, WEALTH) {
        apply(&mut engine, &stamper.stamp(command));
    }
    for display in [1, LARGE / 100 - 1] {
        let events = apply(&mut engine, &stamper.stamp(order(1, Side::Sell, LARGE, Some(display))));
        let reason = Reject::DisplayOutOfRange;
        assert!(matches!(events[..], [Event::Rejected { reason: of, .. }] if of == reason), "{events:?}");
    }
}

#[test]
fn command_trades_at_most_100_times_with_an_iceberg() {
    assert_eq!(trades_with(1, LARGE / 100), 100);
    assert_eq!(trades_with(8, LARGE / 100), 800);
    assert_eq!(trades_with(1, LARGE), 1);
}
