//! Kills, throttles, deletions, closed accounts and epochs, as tables. `common/engines.rs` explains
//! the format of a row.

use crate::common;
use crate::common::rows::{EnginePair, check};
use crate::common::world::{ACCOUNTS, BTC, BTC_USDC, HOUSE, NPN_ZAR, PERPETUAL, ZAR};
use pitwire_model::{
    AccountId, CancelReason, Command, Event, FlowSetting, InstrumentId, KillScope, Label, Lots, NewOrder, OrderId,
    OrderType, Phase, Reject, Seq, SessionId, Side, Ticks,
};

#[test]
fn kill_cancels_orders_and_blocks_new_ones_until_lifted() {
    const BOOK: &str = "a buy 1@100 in 7, b buy 2@99 by 1 in 7, c sell 3@101 in 8, d sell 4@102 by 1";
    check(&format!(
        "
        {BOOK} | kill session 7 | a 1 stopped, b 2 stopped, 2 stopped | - | c 3@101, d 4@102
        {BOOK} | kill account 1 | b 2 stopped, d 4 stopped, 2 stopped | a 1@100 | c 3@101
        {BOOK} | kill venue     | a 1 stopped, b 2 stopped, c 3 stopped, d 4 stopped, 4 stopped | - | -
        {BOOK} | kill b         | b 2 stopped, 1 stopped              | a 1@100 | c 3@101, d 4@102
        {BOOK} | kill b, kill b | b 2 stopped, 1 stopped, refused unknown_order | a 1@100 | c 3@101, d 4@102
        {BOOK} | kill session 9 | 0 stopped                           | a 1@100, b 2@99 | c 3@101, d 4@102
        {BOOK} | kill account 9 | refused unknown_account             | a 1@100, b 2@99 | c 3@101, d 4@102
        kill session 7 | x buy 1@1 in 7, y buy 1@1 in 8, z buy 1@1 | refused killed  | y 1@1, z 1@1 | -
        kill account 1 | x buy 1@1 by 1, y buy 1@1                 | refused killed  | y 1@1 | -
        kill venue     | x buy 1@1 by 1, y buy 1@1 market          | refused killed, refused killed | - | -
        kill venue, lift venue         | x buy 1@1               | -               | x 1@1 | -
        kill session 7, lift session 7 | x buy 1@1 in 7          | -               | x 1@1 | -
        kill account 1, lift account 1 | x buy 1@1 by 1          | -               | x 1@1 | -
        kill venue, lift account 0     | x buy 1@1               | refused killed  | - | -
        kill account 0, lift venue     | x buy 1@1               | refused killed  | - | -
        kill session 7, lift venue     | x buy 1@1 in 7          | refused killed  | - | -
        a buy 5@100, kill account 0    | x buy 1@1 by 1, kill account 0 | 0 stopped | x 1@1 | -
        kill account 0, halt           | x buy 0@0               | refused killed  | - | -
        - | lift a                                               | refused bad_definition | - | -
        - | lift account 9                                       | refused unknown_account | - | -
        - | lift venue, lift session 5, lift account 1           | -               | - | -
        a buy 5@100 by 1, kill session 7 | cancel a by 1, end day | a 5 cancelled  | - | -
        kill b, a buy 5@100            | x buy 1@100             | -               | a 5@100, x 1@100 | -"
    ));
}

#[test]
fn kill_emits_one_book_change_per_instrument_and_the_count() {
    let mut engines = EnginePair::new(100, 1_000_000);
    for (id, instrument) in [(5, NPN_ZAR), (6, BTC_USDC), (7, NPN_ZAR)] {
        engines.apply(buy(id, HOUSE[0], instrument, 1));
    }
    let reason = Label::new("runaway").expect("short");
    let events = engines.apply(Command::Kill { scope: KillScope::Venue, reason: reason.clone() });
    let order = |at: usize| match &events[at] {
        Event::Cancelled { order, reason: CancelReason::Killed, .. } => order.0,
        other => panic!("{at}: {other:?}"),
    };
    assert_eq!([order(0), order(3), order(5)], [6, 5, 7], "instrument by instrument, in the order of entry");
    let changed = |at: usize| matches!(events[at], Event::BookChanged { .. });
    assert!(changed(2) && changed(7), "{events:#?}");
    assert_eq!(events[8..], [Event::Killed { scope: KillScope::Venue, cancelled: 3, reason }]);
    assert!(engines.engine().is_killed(KillScope::Venue));
    assert!(!engines.engine().is_killed(KillScope::Session(SessionId(1))));
    engines.image();
}

#[test]
fn one_command_kills_ten_thousand_orders() {
    let mut engines = EnginePair::new(20_000, 1_000_000);
    for id in 1..=10_000_u64 {
        engines.apply(buy(id, HOUSE[0], NPN_ZAR, 1 + i64::try_from(id % 700).expect("small")));
    }
    engines.apply(buy(10_001, HOUSE[1], NPN_ZAR, 5));
    let scope = KillScope::Account(HOUSE[0]);
    let events = engines.apply(Command::Kill { scope, reason: Label::NONE });
    assert_eq!(events.len(), 20_000 + 1 + 1, "each order and its level, the change, the kill");
    assert_eq!(events[20_001], Event::Killed { scope, cancelled: 10_000, reason: Label::NONE });
    assert_eq!((engines.engine().live_orders(), engines.engine().account(HOUSE[0]).unwrap().open_orders()), (1, 0));
    engines.image();
}

/// Venue time is 1000 ns a command; a window of 1,000,000 ns begins at each multiple of it.
#[test]
fn throttle_trips_at_the_first_fill_above_the_limit() {
    const SETUP: &str = "set account 0 executions 2 in 1000000000, a sell 9@100 by 1";
    check(&format!(
        "
        {SETUP} | x buy 1@100, y buy 1@100, z buy 1@100, w buy 1@100 | a 1@100, a 1@100, a 1@100, account 0 trips, refused execution_throttle | - | a 6@100
        {SETUP}, b sell 1@100 by 1, c sell 1@100 by 1 | x buy 12@101 | a 9@100, b 1@100, c 1@100, account 0 trips | x 1@101 | -
        {SETUP}, b sell 1@100 by 1, c sell 1@101 by 1 | x buy 12@101, lift account 0, y sell 1@101 | a 9@100, b 1@100, c 1@101, account 0 trips, x 1@101 | - | -
        set account 0 executions 2 in 1000000000 | a sell 3@100, x buy 1@100 by 1, y buy 1@100 by 1, z buy 1@100 by 1, w buy 1@1 | a 1@100, a 1@100, a 1@100, account 0 trips, refused execution_throttle | - | -
        set account 0 executions 1 in 1000000000, a sell 3@100 | x buy 1@100, y buy 1@1 | a 1@100, account 0 trips, refused execution_throttle | - | a 2@100
        set account 0 executions 1 in 1000000000, set account 1 executions 1 in 1000000000, a sell 3@100 by 1, b sell 3@100 by 1 | x buy 6@100 | a 3@100, b 3@100, account 1 trips, account 0 trips | - | -
        set account 0 executions 1 in 1000000000, a sell 6@100 show 1 | x buy 3@100 by 1 | a 1@100, a shows 1, a 1@100, a shows 1, account 0 trips, a 1@100, a shows 1 | - | a 1+2@100
        {SETUP}, b sell 5@101, x buy 1@100, y buy 1@100, z buy 1@100 | amend b 4@101, amend b 4@102, amend b 5@101, cancel b | b keeps 4, refused execution_throttle, refused execution_throttle, b 4 cancelled | - | a 6@100
        {SETUP}, b sell 5@101, x buy 1@100, y buy 1@100, z buy 1@100 | replace b 4@101, amend b 3@101 show 2, amend b 0@101 | b requeues 4, refused execution_throttle, refused quantity_out_of_range | - | a 6@100, b 4@101
        {SETUP}, x buy 1@100, y buy 1@100, z buy 1@100 | set account 0, w buy 1@1 | refused execution_throttle | - | a 6@100
        {SETUP}, x buy 1@100, y buy 1@100, set account 0 executions 2 in 1000000000 | z buy 1@100, w buy 1@100 | a 1@100, a 1@100 | - | a 5@100
        {SETUP}, x buy 1@100, y buy 1@100, lift account 0 | z buy 1@100, w buy 1@100 | a 1@100, a 1@100 | - | a 5@100"
    ));
}

#[test]
fn throttle_windows_begin_at_multiples_of_their_length() {
    const WINDOW: u64 = 1_000_000;
    // The third fill comes in the last nanosecond of the window, or in the first of the next.
    for (end, trips) in [(WINDOW - 1, "a 1@100, account 0 trips"), (WINDOW, "a 1@100")] {
        let mut engines = EnginePair::new(100, 1_000_000);
        engines.run(&format!("a sell 9@100 by 1, set account 0 executions 2 in {WINDOW}, x buy 1@100, y buy 1@100"));
        assert!(engines.now() + 1000 < WINDOW, "all in the first window");
        // Each command comes 1000 ns after the one before.
        engines.wait(end - engines.now() - 1000);
        assert_eq!(engines.run("z buy 1@100"), trips, "{end}");
        engines.image();
        let account = engines.engine().account(AccountId(0)).expect("defined");
        assert_eq!(account.is_throttled(), end < WINDOW);
    }
}

#[test]
fn session_end_cancels_orders_with_cancel_on_disconnect() {
    const BOOK: &str = "a buy 1@100 in 7, b buy 2@99 in 8 cod, c sell 3@101 in 7 by 1, d sell 4@102";
    check(&format!(
        "
        {BOOK} | cancel all in 7        | a 1 cancelled | b 2@99           | c 3@101, d 4@102
        {BOOK} | cancel all in 0        | d 4 cancelled | a 1@100, b 2@99  | c 3@101
        {BOOK} | cancel all in 7 by 1   | c 3 cancelled | a 1@100, b 2@99  | d 4@102
        {BOOK} | cancel all here        | a 1 cancelled, b 2 cancelled, d 4 cancelled | - | c 3@101
        {BOOK} | cancel list d c a d z  | a 1 cancelled, d 4 cancelled | b 2@99 | c 3@101
        {BOOK} | cancel list            | -             | a 1@100, b 2@99  | c 3@101, d 4@102
        {BOOK} | start epoch 2          | b 2 disconnected | a 1@100       | c 3@101, d 4@102
        {BOOK}, amend b 5@98 | start epoch 2, cancel all in 7 | b 5 disconnected, a 1 cancelled | - | c 3@101, d 4@102
        kill session 7, start epoch 2 | x buy 1@1 in 7            | -              | x 1@1 | -
        kill venue, start epoch 2     | x buy 1@1                 | refused killed | - | -
        kill account 0, start epoch 2 | x buy 1@1                 | refused killed | - | -"
    ));
}

#[test]
fn deleted_instrument_stays_deleted() {
    check(
        "
        a buy 1@100, b sell 2@101 by 1 | delete            | a 1 closed, b 2 closed       | - | -
        delete                         | delete            | refused instrument_deleted   | - | -
        delete                         | x buy 1@1         | refused instrument_deleted   | - | -
        delete                         | open, halt        | refused instrument_deleted, refused instrument_deleted | - | -
        delete                         | limit lots 5      | refused instrument_deleted   | - | -
        delete, close account 0        | x buy 0@0         | refused instrument_deleted   | - | -",
    );
    let mut engines = EnginePair::new(100, 1_000_000);
    let delete = |instrument| Command::DeleteInstrument { instrument };
    let phase = |instrument, phase| Event::PhaseChanged { instrument, phase };
    assert_eq!(engines.apply(delete(InstrumentId(9))), [refused(Reject::UnknownInstrument)]);
    assert_eq!(engines.apply(delete(BTC_USDC)), [refused(Reject::BadDefinition)], "an index in use");
    assert_eq!(
        engines.apply(Command::SetPhase { instrument: NPN_ZAR, phase: Phase::Deleted }),
        [refused(Reject::BadDefinition)]
    );
    engines.apply(buy(1, HOUSE[0], PERPETUAL, 1000));
    engines.apply(sell(2, HOUSE[1], PERPETUAL, 1000));
    assert_eq!(engines.apply(delete(PERPETUAL)), [refused(Reject::BadDefinition)], "positions are open");
    engines.apply(sell(3, HOUSE[0], PERPETUAL, 1000));
    engines.apply(buy(4, HOUSE[1], PERPETUAL, 1000));
    assert_eq!(engines.apply(delete(PERPETUAL)), [phase(PERPETUAL, Phase::Deleted)]);
    assert_eq!(engines.apply(delete(BTC_USDC)), [phase(BTC_USDC, Phase::Deleted)]);
    let mut late = common::world::instrument(PERPETUAL, 10);
    (late.id, late.name) = (InstrumentId(3), "LATE".to_owned());
    assert_eq!(engines.apply(Command::AddInstrument(Box::new(late))), [refused(Reject::BadDefinition)]);
    engines.image();
}

#[test]
fn closed_account_keeps_only_its_money() {
    check(
        "
        a buy 1@100 by 2, b sell 2@101 | close account 2                       | a 1 closed              | - | b 2@101
        close account 2                | x buy 1@1 by 2, y buy 1@2             | refused account_closed  | y 1@2 | -
        close account 2                | close account 2, close account 9      | refused account_closed, refused unknown_account | - | -
        kill account 2, close account 2, lift account 2 | x buy 1@1 by 2       | refused account_closed  | - | -",
    );
    let mut engines = EnginePair::new(100, 100);
    let account = AccountId(2);
    engines.run("a buy 9@100 by 2");
    let events = engines.apply(Command::CloseAccount { account });
    assert_eq!(events.last(), Some(&Event::AccountClosed { account }));
    let holder = engines.engine().account(account).expect("defined");
    assert!(holder.is_closed() && holder.open_orders() == 0);
    assert_eq!((holder.balance(ZAR).total, holder.balance(ZAR).reserved), (100_000, 0));
    let out = engines.apply(Command::Deposit { account, currency: ZAR, units: -100_000 });
    assert_eq!(out, [Event::Deposited { account, currency: ZAR, units: -100_000 }], "it is still theirs");
}

#[test]
fn flow_setting_is_stored_and_bounded() {
    let mut engines = EnginePair::new(100, 100);
    for (rate_percent, fine) in [(1, true), (100_000, true), (0, false), (100_001, false)] {
        let flow = FlowSetting { running: false, rate_percent };
        let due = if fine { Event::FlowSet(flow) } else { refused(Reject::BadDefinition) };
        assert_eq!(engines.apply(Command::SetFlow(flow)), [due]);
    }
    assert_eq!(engines.engine().flow(), FlowSetting { running: false, rate_percent: 100_000 });
    engines.image();
}

#[test]
fn flow_definition_is_bounded() {
    let mut engines = EnginePair::new(100, 100);
    for (bytes, fine) in [(1, true), (60_000, true), (0, false), (60_001, false)] {
        let due = if fine { Event::FlowDefined } else { refused(Reject::BadDefinition) };
        assert_eq!(engines.apply(Command::DefineFlow { text: "x".repeat(bytes).into() }), [due], "{bytes} bytes");
    }
}

#[test]
fn quarantined_command_halts_its_instrument() {
    let mut engines = EnginePair::new(100, 100);
    let quarantine = |instrument| Command::Quarantine { seq: Seq(12), instrument };
    let quarantined = Event::Quarantined { seq: Seq(12) };
    let halted = Event::PhaseChanged { instrument: NPN_ZAR, phase: Phase::Halted };
    assert_eq!(engines.apply(quarantine(None)), std::slice::from_ref(&quarantined));
    assert_eq!(engines.apply(quarantine(Some(InstrumentId(9)))), std::slice::from_ref(&quarantined));
    assert_eq!(engines.apply(quarantine(Some(NPN_ZAR))), [quarantined.clone(), halted]);
    assert_eq!(engines.run("x buy 1@1, delete"), "refused not_open");
    assert_eq!(engines.apply(quarantine(Some(NPN_ZAR))), [quarantined]);
    assert_eq!(ACCOUNTS, u32::try_from(engines.engine().accounts().len()).expect("few"));
    assert_eq!(engines.engine().available(AccountId(2), BTC), 2_000_000);
}

fn order(id: u64, account: AccountId, instrument: InstrumentId, side: Side, price: i64) -> Command {
    let order_type = OrderType::Limit { price: Ticks(price) };
    let id = OrderId(id);
    Command::Enter(NewOrder { id, account, instrument, side, lots: Lots(1), order_type, ..NewOrder::PLAIN })
}

fn buy(id: u64, account: AccountId, instrument: InstrumentId, price: i64) -> Command {
    order(id, account, instrument, Side::Buy, price)
}

fn sell(id: u64, account: AccountId, instrument: InstrumentId, price: i64) -> Command {
    order(id, account, instrument, Side::Sell, price)
}

fn refused(reason: Reject) -> Event {
    Event::CommandRefused { reason }
}
