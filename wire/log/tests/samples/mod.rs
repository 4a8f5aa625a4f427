//! One of everything, by the names that the golden vectors use.
#![allow(dead_code)] // each test binary uses its part

use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelFilter, CancelReason, Command, Credit, Currency, CurrencyId,
    Decimal, Epoch, Event, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Label, Lots, NewOrder,
    OrderId, OrderType, Phase, Priority, Reject, Seq, Side, Stamped, Ticks, TimeInForce, TradeSeq, VenueNanos,
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
        name: "NPN_ZAR".to_owned(),
        kind: InstrumentKind::Spot { base: CurrencyId(1), quote: CurrencyId(3) },
        tick: Decimal::new(1, 2),
        lot: Decimal::new(1, 0),
        start_price: Ticks(325_000),
        max_resting_orders: 1_000_000,
        limits: InstrumentLimits::default(),
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
        limits: InstrumentLimits::default(),
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

fn amend(priority: Priority) -> Amend {
    Amend { account: ACCOUNT, order: ORDER, price: Ticks(101), lots: Lots(12), priority, ..Amend::PLAIN }
}

/// Numbered from 1 in this order.
pub fn commands() -> Vec<(&'static str, Stamped)> {
    let house = AccountSpec {
        id: AccountId(9),
        name: String::new(),
        credit: Credit::Unlimited,
        settings: AccountSettings::default(),
    };
    let units = -10_i128.pow(30);
    let commands = vec![
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
        ("amend", Command::Amend(amend(Priority::KeepWhenReduced))),
        ("amend_losing", Command::Amend(amend(Priority::AlwaysLose))),
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
        ("close_window", Command::CloseWindow),
        ("sample_index", Command::SampleIndex),
        ("end_day", Command::EndDay),
    ];
    let stamp = |(seq, (name, command))| (name, Stamped { seq: Seq(seq), at: VenueNanos(1000 + seq), command });
    (1_u64..).zip(commands).map(stamp).collect()
}

pub fn events() -> Vec<(&'static str, Event)> {
    let (order, account_id, instrument, side) = (ORDER, ACCOUNT, INSTRUMENT, Side::Sell);
    vec![
        ("epoch_started", Event::EpochStarted { epoch: Epoch(7) }),
        ("currency_added", Event::CurrencyAdded(currency())),
        ("instrument_added", Event::InstrumentAdded(Box::new(spot()))),
        ("account_added", Event::AccountAdded(account())),
        ("deposited", Event::Deposited { account: account_id, currency: CurrencyId(3), units: 10_i128.pow(30) }),
        ("phase_changed", Event::PhaseChanged { instrument, phase: Phase::Continuous }),
        (
            "accepted",
            Event::Accepted {
                order,
                account: account_id,
                instrument,
                side,
                order_type: OrderType::Limit { price: Ticks(101) },
                lots: Lots(5),
                tif: TimeInForce::Day,
                display: None,
            },
        ),
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
    }
}
