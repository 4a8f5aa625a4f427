//! The correct run: one spot instrument, a house account (0) and a member (1), with every kind of
//! trading command once.

use pitwire_auditor::{
    AuditSnapshot, ClosingPrices, SnapshotAccount, SnapshotMarket, SnapshotOrder, SnapshotOrderState,
    SnapshotRestrictions, SnapshotSession,
};
use pitwire_fixtures::{Party, limit_order, share, trade};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelFilter, CancelReason, Command, Credit, Currency, CurrencyId,
    Event, InstrumentId, InstrumentSpec, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase, Priority, Reject, Seq,
    SequencedCommand, SessionId, Side, Ticks, TimeInForce, TradeKind, TradeSeq, VenueDay, VenueNanos,
};

pub type WindowRun = Vec<(SequencedCommand, Vec<Event>)>;

const MARKET: InstrumentId = InstrumentId(0);
const HOUSE: AccountId = AccountId(0);
const MEMBER: AccountId = AccountId(1);

/// Returns the position of a named step in the run.
pub fn step(name: &str) -> usize {
    match name {
        "open" => 5,
        "deposit" => 6,
        "refused" => 9,
        "sweep" => 13,
        "ioc" => 14,
        "grow" => 16,
        "cancel" => 18,
        "end day" => 20,
        "window" => 21,
        _ => panic!("no step is called {name}"),
    }
}

pub fn run() -> WindowRun {
    use Side::{Buy, Sell};
    use TimeInForce::{Day, GoodTillCancel, ImmediateOrCancel};
    let shares = Currency { id: CurrencyId(0), name: "NPN".to_owned(), decimals: 0 };
    let cash = Currency { id: CurrencyId(1), name: "ZAR".to_owned(), decimals: 2 };
    let house = AccountSpec {
        id: HOUSE,
        name: "house".to_owned(),
        credit: Credit::Unlimited,
        settings: AccountSettings::default(),
    };
    let member = AccountSpec {
        id: MEMBER,
        name: "member".to_owned(),
        credit: Credit::Limited,
        settings: AccountSettings::default(),
    };
    let mut steps = vec![
        (Command::AddCurrency(shares.clone()), vec![Event::CurrencyAdded(shares)]),
        (Command::AddCurrency(cash.clone()), vec![Event::CurrencyAdded(cash)]),
        (Command::AddAccount(house.clone()), vec![Event::AccountAdded(house)]),
        (Command::AddAccount(member.clone()), vec![Event::AccountAdded(member)]),
        (Command::AddInstrument(Box::new(spec())), vec![Event::InstrumentAdded(Box::new(spec()))]),
        (
            Command::SetPhase { instrument: MARKET, phase: Phase::Continuous },
            vec![Event::PhaseChanged { instrument: MARKET, phase: Phase::Continuous }],
        ),
        (
            Command::Deposit { account: MEMBER, currency: CurrencyId(1), units: 10_000 },
            vec![Event::Deposited { account: MEMBER, currency: CurrencyId(1), units: 10_000 }],
        ),
        (
            Command::Deposit { account: MEMBER, currency: CurrencyId(90), units: 1 },
            vec![Event::CommandRefused { reason: Reject::UnknownCurrency }],
        ),
        (
            Command::Cancel { account: HOUSE, order: OrderId(5) },
            vec![Event::CancelRefused { order: OrderId(5), account: HOUSE, reason: Reject::UnknownOrder }],
        ),
        (
            enter(10, MEMBER, Buy, 100, 0, GoodTillCancel),
            vec![Event::Rejected { order: OrderId(10), account: MEMBER, reason: Reject::QuantityOutOfRange }],
        ),
    ];
    // Three offers: two at 100, one at 101.
    steps.push(rests(11, HOUSE, Sell, 100, 3, GoodTillCancel, 3, 1));
    steps.push(rests(12, HOUSE, Sell, 100, 2, Day, 5, 2));
    steps.push(rests(13, HOUSE, Sell, 101, 4, GoodTillCancel, 4, 3));
    // The member buys 8 at up to 102: all lots at 100, then 3 of the 4 at 101.
    steps.push((
        enter(14, MEMBER, Buy, 102, 8, GoodTillCancel),
        vec![
            accepted(14, MEMBER, Buy, 102, 8, GoodTillCancel),
            traded(1, 100, 3, (11, 0), (14, MEMBER, 5)),
            traded(2, 100, 2, (12, 0), (14, MEMBER, 3)),
            level(Sell, 100, 0),
            traded(3, 101, 3, (13, 1), (14, MEMBER, 0)),
            level(Sell, 101, 1),
            changed(4),
        ],
    ));
    steps.push((
        enter(15, MEMBER, Buy, 101, 3, ImmediateOrCancel),
        vec![
            accepted(15, MEMBER, Buy, 101, 3, ImmediateOrCancel),
            traded(4, 101, 1, (13, 0), (15, MEMBER, 2)),
            level(Sell, 101, 0),
            cancelled(OrderId(15), MEMBER, 101, 2, CancelReason::ImmediateRemainder),
            changed(5),
        ],
    ));
    steps.push(rests(16, MEMBER, Buy, 90, 4, GoodTillCancel, 4, 6));
    steps.push((
        Command::Amend(Amend {
            account: MEMBER,
            order: OrderId(16),
            price: Ticks(90),
            lots: Lots(6),
            priority: Priority::KeepWhenReduced,
            ..Amend::PLAIN
        }),
        vec![
            Event::Amended {
                order: OrderId(16),
                account: MEMBER,
                instrument: MARKET,
                side: Buy,
                price: Ticks(90),
                lots: Lots(6),
                open: Lots(6),
                kept_priority: false,
                display: None,
                stop: None,
                minimum_execution: None,
                expiry: None,
            },
            level(Buy, 90, 0),
            level(Buy, 90, 6),
            changed(7),
        ],
    ));
    steps.push(rests(18, HOUSE, Buy, 91, 1, GoodTillCancel, 1, 8));
    steps.push((
        Command::Cancel { account: HOUSE, order: OrderId(18) },
        vec![cancelled(OrderId(18), HOUSE, 91, 1, CancelReason::Requested), level(Buy, 91, 0), changed(9)],
    ));
    steps.push(rests(20, HOUSE, Buy, 80, 7, Day, 7, 10));
    steps.push((
        Command::EndDay,
        vec![
            cancelled(OrderId(20), HOUSE, 80, 7, CancelReason::DayEnded),
            level(Buy, 80, 0),
            changed(11),
            Event::DayEnded,
        ],
    ));
    steps.push((Command::CloseWindow, vec![Event::WindowClosed]));
    stamped(1, steps)
}

/// The steps after a resume: the house sells to the one remaining order and fills it.
pub fn tail() -> WindowRun {
    let all = vec![
        accepted(23, HOUSE, Side::Sell, 90, 2, TimeInForce::Day),
        trade(5, 90, 2, (16, MEMBER, 4), (23, HOUSE, 0), Side::Sell, TradeKind::Continuous),
        level(Side::Buy, 90, 4),
        changed(12),
    ];
    let left =
        vec![cancelled(OrderId(16), MEMBER, 90, 4, CancelReason::Requested), level(Side::Buy, 90, 0), changed(13)];
    let steps = vec![
        (enter(23, HOUSE, Side::Sell, 90, 2, TimeInForce::Day), all),
        (Command::CancelAll { account: MEMBER, which: CancelFilter::All, reason: CancelReason::Requested }, left),
    ];
    stamped(23, steps)
}

/// The state after the run: 9 shares bought for 500 + 303 + 101 cents, and 6 bid for at 90.
pub fn snapshot() -> AuditSnapshot {
    let account = |id, name: &str, credit, totals: [i128; 2], reserved: i128| SnapshotAccount {
        spec: AccountSpec { id, name: name.to_owned(), credit, settings: AccountSettings::default() },
        totals: totals.to_vec(),
        reserved: vec![0, reserved],
        credit: Vec::new(),
        positions: Vec::new(),
        restrictions: SnapshotRestrictions::default(),
    };
    let order = SnapshotOrder {
        id: OrderId(16),
        account: MEMBER,
        side: Side::Buy,
        order_type: OrderType::Limit { price: Ticks(90) },
        place: SnapshotOrderState::Active,
        tif: TimeInForce::GoodTillCancel,
        entered: VenueDay::ZERO,
        bound: None,
        time: 1,
        self_match: None,
        open: Lots(6),
        shown: Lots(6),
        display: None,
        ordered: Lots(6),
        group: MatchGroup::Account,
        session: SessionId::ZERO,
        cancel_on_disconnect: false,
        reduce_only: false,
    };
    let sessions = SnapshotSession {
        static_reference: Some(Ticks(100)),
        dynamic: Some(Ticks(101)),
        close: ClosingPrices::default(), // The day has ended.
        ..SnapshotSession::default()
    };
    AuditSnapshot {
        today: None,
        venue_killed: false,
        killed_sessions: Vec::new(),
        seq: Seq(22),
        at: VenueNanos(22_000),
        currencies: vec![
            Currency { id: CurrencyId(0), name: "NPN".to_owned(), decimals: 0 },
            Currency { id: CurrencyId(1), name: "ZAR".to_owned(), decimals: 2 },
        ],
        markets: vec![SnapshotMarket {
            spec: spec(),
            phase: Phase::Continuous,
            change_id: 11,
            trades: TradeSeq(4),
            last: Some(Ticks(101)),
            busted: Vec::new(),
            orders: vec![order],
            sessions,
            reporting: Default::default(),
        }],
        accounts: vec![
            account(HOUSE, "house", Credit::Unlimited, [-9, 904], 0),
            account(MEMBER, "member", Credit::Limited, [9, 9_096], 540),
        ],
    }
}

fn stamped(first: u64, steps: Vec<(Command, Vec<Event>)>) -> WindowRun {
    let stamp =
        |(seq, (command, events))| (SequencedCommand { seq: Seq(seq), at: VenueNanos(seq * 1000), command }, events);
    (first..).zip(steps).map(stamp).collect()
}

fn spec() -> InstrumentSpec {
    InstrumentSpec { id: MARKET, max_resting_orders: 10, ..share() }
}

fn order(id: u64, account: AccountId, side: Side, price: i64, lots: u64, tif: TimeInForce) -> NewOrder {
    NewOrder { tif, ..limit_order(id, account, side, price, lots) }
}

fn enter(id: u64, account: AccountId, side: Side, price: i64, lots: u64, tif: TimeInForce) -> Command {
    Command::Enter(order(id, account, side, price, lots, tif))
}

fn accepted(id: u64, account: AccountId, side: Side, price: i64, lots: u64, tif: TimeInForce) -> Event {
    pitwire_fixtures::accepted(&order(id, account, side, price, lots, tif))
}

#[expect(clippy::too_many_arguments, reason = "one line of the script each")]
fn rests(
    id: u64,
    account: AccountId,
    side: Side,
    price: i64,
    lots: u64,
    tif: TimeInForce,
    total: u64,
    change: u64,
) -> (Command, Vec<Event>) {
    let events = vec![accepted(id, account, side, price, lots, tif), level(side, price, total), changed(change)];
    (enter(id, account, side, price, lots, tif), events)
}

/// The house is the maker and the member the taker of every trade.
fn traded(seq: u64, price: i64, lots: u64, maker: (u64, u64), taker: Party) -> Event {
    let maker = (maker.0, HOUSE, maker.1);
    trade(seq, price, lots, maker, taker, Side::Buy, TradeKind::Continuous)
}

pub fn level(side: Side, price: i64, lots: u64) -> Event {
    Event::Level { instrument: MARKET, side, price: Ticks(price), lots: Lots(lots) }
}

fn changed(change_id: u64) -> Event {
    Event::BookChanged { instrument: MARKET, change_id }
}

pub fn cancelled(order: OrderId, account: AccountId, price: i64, open: u64, reason: CancelReason) -> Event {
    Event::Cancelled {
        order,
        account,
        instrument: MARKET,
        side: Side::Buy,
        price: Ticks(price),
        open: Lots(open),
        reason,
    }
}
