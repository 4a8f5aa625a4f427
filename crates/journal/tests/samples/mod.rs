//! One of everything, by the names that the golden vectors use.

pub mod flows;
pub mod reporting;
pub mod sessions;
pub mod signatures;

use pitwire_fixtures::share;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Bust, CancelFilter, CancelReason, Command, Credit, Currency,
    CurrencyId, Decimal, Epoch, Event, FlowSetting, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec,
    KillScope, Label, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase, PostOnly, Priority, Reject, SelfMatch,
    Seq, SequencedCommand, SessionId, Side, Throttle, Ticks, TimeInForce, TradeKind, TradeSeq, VenueNanos,
};

const ACCOUNT: AccountId = AccountId(8);
const INSTRUMENT: InstrumentId = InstrumentId(4);
const ORDER: OrderId = OrderId(8);

fn currency() -> Currency {
    Currency { id: CurrencyId(3), name: "ZÄR".to_owned(), decimals: 2 }
}

fn spot() -> InstrumentSpec {
    InstrumentSpec {
        id: INSTRUMENT,
        kind: InstrumentKind::Spot { base: CurrencyId(1), quote: CurrencyId(3) },
        start_price: Ticks(325_000),
        max_resting_orders: 1_000_000,
        ..share()
    }
}

fn perpetual() -> InstrumentSpec {
    InstrumentSpec {
        id: InstrumentId(5),
        name: "BTC-PERPETUAL".to_owned(),
        kind: InstrumentKind::InversePerpetual {
            base: CurrencyId(6),
            quote: CurrencyId(7),
            index: InstrumentId(2),
            max_leverage: 50,
        },
        tick: Decimal::new(5, 1),
        lot: Decimal::new(10, 0),
        start_price: Ticks(120_000),
        max_resting_orders: 9,
        limits: limits(),
        rules: None,
    }
}

fn account() -> AccountSpec {
    AccountSpec {
        id: ACCOUNT,
        name: "demo-a".to_owned(),
        credit: Credit::Limited,
        settings: AccountSettings::default(),
    }
}

fn limit_order() -> NewOrder {
    NewOrder {
        id: ORDER,
        account: ACCOUNT,
        instrument: INSTRUMENT,
        side: Side::Sell,
        order_type: OrderType::Limit { price: Ticks(-5) },
        lots: Lots(1 << 40),
        tif: TimeInForce::GoodTillCancel,
        label: Label::new("mine").unwrap(),
        ..NewOrder::PLAIN
    }
}

fn market_order() -> NewOrder {
    NewOrder {
        id: OrderId(9),
        side: Side::Buy,
        order_type: OrderType::Market,
        lots: Lots(1),
        tif: TimeInForce::ImmediateOrCancel,
        label: Label::default(),
        ..limit_order()
    }
}

fn limits() -> InstrumentLimits {
    InstrumentLimits { max_lots: Some(Lots(40)), max_notional_units: Some(10_i128.pow(25)), collar_bps: Some(500) }
}

fn settings() -> AccountSettings {
    AccountSettings {
        self_match: SelfMatch::CancelBoth,
        max_open_orders: Some(100),
        throttle: Some(Throttle { executions: 20, window_ns: 1_000_000_000 }),
    }
}

fn why() -> Label {
    Label::new("why").unwrap()
}

fn bust() -> Box<Bust> {
    Box::new(Bust {
        instrument: INSTRUMENT,
        trade_seq: TradeSeq(77),
        price: Ticks(101),
        lots: Lots(5),
        buyer: AccountId(2),
        seller: ACCOUNT,
        reason: why(),
    })
}

/// Every term at once.
fn iceberg() -> NewOrder {
    NewOrder {
        id: OrderId(10),
        display: Some(Lots(50)),
        post_only: PostOnly::Reprice,
        self_match: Some(SelfMatch::Allow),
        match_group: MatchGroup::Key(77),
        session: SessionId(11),
        cancel_on_disconnect: true,
        client_order_id: Label::new("a-1").unwrap(),
        ..limit_order()
    }
}

fn lone_order() -> NewOrder {
    NewOrder {
        id: OrderId(11),
        tif: TimeInForce::FillOrKill,
        post_only: PostOnly::Reject,
        match_group: MatchGroup::Order,
        label: Label::default(),
        ..limit_order()
    }
}

fn amend(priority: Priority) -> Amend {
    Amend { account: ACCOUNT, order: ORDER, price: Ticks(101), lots: Lots(12), priority, ..Amend::PLAIN }
}

/// Numbered from 1 in this order.
pub fn commands() -> Vec<(&'static str, SequencedCommand)> {
    let house = AccountSpec { id: AccountId(9), name: String::new(), credit: Credit::Unlimited, settings: settings() };
    let units = -10_i128.pow(30);
    let mut commands = vec![
        ("start_epoch", Command::StartEpoch { epoch: Epoch(7) }),
        ("add_currency", Command::AddCurrency(currency())),
        ("add_spot", Command::AddInstrument(Box::new(spot()))),
        ("add_perpetual", Command::AddInstrument(Box::new(perpetual()))),
        ("add_account", Command::AddAccount(account())),
        ("add_house_account", Command::AddAccount(house)),
        ("deposit", Command::Deposit { account: ACCOUNT, currency: CurrencyId(3), units }),
        ("set_phase", Command::SetPhase { instrument: INSTRUMENT, phase: Phase::Halted }),
        ("enter_limit", Command::Enter(limit_order())),
        ("enter_market", Command::Enter(market_order())),
        ("enter_iceberg", Command::Enter(iceberg())),
        ("enter_alone", Command::Enter(lone_order())),
        ("amend", Command::Amend(amend(Priority::KeepWhenReduced))),
        ("amend_losing", Command::Amend(amend(Priority::AlwaysLose))),
        (
            "amend_iceberg",
            Command::Amend(Amend {
                display: Some(Lots(3)),
                post_only: PostOnly::Reject,
                ..amend(Priority::KeepWhenReduced)
            }),
        ),
        ("cancel", Command::Cancel { account: ACCOUNT, order: ORDER }),
        (
            "cancel_all",
            Command::CancelAll { account: ACCOUNT, which: CancelFilter::All, reason: CancelReason::Requested },
        ),
        (
            "cancel_all_of_one",
            Command::CancelAll {
                account: ACCOUNT,
                which: CancelFilter::Instrument(INSTRUMENT),
                reason: CancelReason::Requested,
            },
        ),
        (
            "cancel_all_of_session",
            Command::CancelAll {
                account: ACCOUNT,
                which: CancelFilter::Session(SessionId(11)),
                reason: CancelReason::Disconnected,
            },
        ),
        (
            "cancel_all_listed",
            Command::CancelAll {
                account: ACCOUNT,
                which: CancelFilter::Listed([ORDER, OrderId(9)].into()),
                reason: CancelReason::Requested,
            },
        ),
        ("close_window", Command::CloseWindow),
        ("sample_index", Command::SampleIndex),
        ("end_day", Command::EndDay),
    ];
    commands.extend(operators());
    let stamp =
        |(seq, (name, command))| (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(1000 + seq), command });
    (1_u64..).zip(commands).map(stamp).collect()
}

fn operators() -> Vec<(&'static str, Command)> {
    let (instrument, account) = (INSTRUMENT, ACCOUNT);
    let kill = |scope, reason| Command::Kill { scope, reason };
    let currency = CurrencyId(3);
    vec![
        ("set_limits", Command::SetInstrumentLimits { instrument, limits: limits() }),
        ("set_no_limits", Command::SetInstrumentLimits { instrument, limits: InstrumentLimits::default() }),
        ("delete_instrument", Command::DeleteInstrument { instrument }),
        ("set_account", Command::SetAccount { account, settings: settings() }),
        ("set_credit_line", Command::SetCreditLine { account, currency, units: 10_i128.pow(30) }),
        ("close_account", Command::CloseAccount { account }),
        ("kill_order", kill(KillScope::Order(ORDER), why())),
        ("kill_session", kill(KillScope::Session(SessionId(11)), Label::NONE)),
        ("kill_account", kill(KillScope::Account(account), why())),
        ("kill_venue", kill(KillScope::Venue, why())),
        ("lift", Command::Lift { scope: KillScope::Account(account) }),
        ("bust", Command::BustTrade(bust())),
        ("set_flow", Command::SetFlow(FlowSetting { running: true, rate_percent: 250 })),
        ("quarantine", Command::Quarantine { seq: Seq(5), instrument: Some(instrument) }),
        ("quarantine_nothing", Command::Quarantine { seq: Seq(5), instrument: None }),
    ]
}

/// Including kinds that were added later.
pub fn all() -> Vec<(&'static str, SequencedCommand)> {
    commands()
        .into_iter()
        .chain(sessions::commands())
        .chain(reporting::commands())
        .chain(signatures::commands())
        .chain(flows::commands())
        .collect()
}

pub fn events() -> Vec<(&'static str, Event)> {
    let (order, account_id, instrument, side) = (ORDER, ACCOUNT, INSTRUMENT, Side::Sell);
    let accepted = |display| Event::Accepted {
        order,
        account: account_id,
        instrument,
        side,
        order_type: OrderType::Limit { price: Ticks(101) },
        lots: Lots(5),
        tif: TimeInForce::Day,
        display,
    };
    vec![
        ("epoch_started", Event::EpochStarted { epoch: Epoch(7) }),
        ("currency_added", Event::CurrencyAdded(currency())),
        ("instrument_added", Event::InstrumentAdded(Box::new(spot()))),
        ("account_added", Event::AccountAdded(account())),
        ("deposited", Event::Deposited { account: account_id, currency: CurrencyId(3), units: 10_i128.pow(30) }),
        ("phase_changed", Event::PhaseChanged { instrument, phase: Phase::Continuous }),
        ("accepted", accepted(None)),
        ("accepted_iceberg", accepted(Some(Lots(2)))),
        ("rejected", Event::Rejected { order, account: account_id, reason: Reject::PriceOutOfRange }),
        ("trade", trade(5)),
        (
            "cancelled",
            Event::Cancelled {
                order,
                account: account_id,
                instrument,
                side,
                price: Ticks(101),
                open: Lots(3),
                reason: CancelReason::DayEnded,
            },
        ),
        (
            "amended",
            Event::Amended {
                order,
                account: account_id,
                instrument,
                side,
                price: Ticks(102),
                lots: Lots(6),
                open: Lots(5),
                kept_priority: true,
                display: None,
                stop: None,
                minimum_execution: None,
                expiry: None,
            },
        ),
        ("amend_refused", Event::AmendRefused { order, account: account_id, reason: Reject::AmountAlreadyFilled }),
        ("cancel_refused", Event::CancelRefused { order, account: account_id, reason: Reject::UnknownOrder }),
        ("command_refused", Event::CommandRefused { reason: Reject::AmountOverflow }),
        ("level", Event::Level { instrument, side, price: Ticks(101), lots: Lots(3) }),
        ("book_changed", Event::BookChanged { instrument, change_id: 4242 }),
        ("window_closed", Event::WindowClosed),
        (
            "index_sampled",
            Event::IndexSampled { instrument: InstrumentId(5), index: Ticks(120_001), mark: Ticks(119_999) },
        ),
        ("day_ended", Event::DayEnded),
        (
            "refreshed",
            Event::Refreshed { order, account: account_id, instrument, side, price: Ticks(101), shown: Lots(3) },
        ),
        ("limits_set", Event::InstrumentLimitsSet { instrument, limits: limits() }),
        ("account_set", Event::AccountSet { account: account_id, settings: settings() }),
        (
            "credit_line_set",
            Event::CreditLineSet { account: account_id, currency: CurrencyId(3), units: 10_i128.pow(30) },
        ),
        ("account_closed", Event::AccountClosed { account: account_id }),
        ("killed", Event::Killed { scope: KillScope::Session(SessionId(11)), cancelled: 9, reason: why() }),
        ("lifted", Event::Lifted { scope: KillScope::Venue }),
        ("throttle_tripped", Event::ThrottleTripped { account: account_id }),
        ("trade_busted", Event::TradeBusted(bust())),
        ("flow_set", Event::FlowSet(FlowSetting { running: true, rate_percent: 250 })),
        ("quarantined", Event::Quarantined { seq: Seq(5) }),
    ]
}

pub fn trade(lots: u64) -> Event {
    Event::Trade {
        instrument: INSTRUMENT,
        trade_seq: TradeSeq(77),
        price: Ticks(101),
        lots: Lots(lots),
        taker_side: Side::Buy,
        maker: ORDER,
        maker_account: ACCOUNT,
        maker_open: Lots(3),
        taker: OrderId(9),
        taker_account: AccountId(2),
        taker_open: Lots(4),
        kind: TradeKind::Continuous,
    }
}
