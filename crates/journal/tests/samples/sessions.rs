//! Samples of records of sessions and calls, by the names that the golden vectors use.

use pitwire_model::{
    Allocation, Amend, CancelReason, Command, Derivation, Event, Expiry, InstrumentSpec, Lots, NewOrder, OrderId,
    OrderType, Phase, Reference, Reject, RemainingSessions, Seq, SequencedCommand, SessionReason, Side, Ticks,
    TimeInForce, Tolerance, TradeKind, TradingRules, VenueDay, VenueNanos,
};

use super::{ACCOUNT, INSTRUMENT, ORDER, spot, trade};

const DAY: VenueDay = VenueDay(20_454);
const TIME: VenueNanos = VenueNanos(1_000_000_000_000_000_000);

fn rules() -> Box<TradingRules> {
    let mut rules = TradingRules {
        segment: pitwire_model::Label::new("ZA01").unwrap(),
        minimum_reserve: Some(Lots(500)),
        improvement: Ticks(2),
        band_pct: Some(40),
        allocation: Allocation::ProRata,
        volatility_call_ns: 300_000_000_000,
        batch_interval_ns: 100_000_000,
        ..TradingRules::default()
    };
    rules.tolerances[0] = Tolerance { static_bps: Some(1_000), dynamic_bps: Some(300) };
    rules.tolerances[1] = Tolerance { static_bps: Some(800), dynamic_bps: Some(600) };
    rules.tolerances[6] = Tolerance { static_bps: None, dynamic_bps: Some(7) };
    Box::new(rules)
}

fn with_rules() -> Box<InstrumentSpec> {
    Box::new(InstrumentSpec { rules: Some(rules()), ..spot() })
}

fn entered(number: u64, order_type: OrderType, tif: TimeInForce) -> Command {
    let (id, account, instrument, lots) = (OrderId(number), ACCOUNT, INSTRUMENT, Lots(40));
    Command::Enter(NewOrder { id, account, instrument, order_type, lots, tif, ..NewOrder::PLAIN })
}

fn amend() -> Amend {
    Amend { account: ACCOUNT, order: ORDER, price: Ticks(101), lots: Lots(12), ..Amend::PLAIN }
}

pub fn commands() -> Vec<(&'static str, SequencedCommand)> {
    let instrument = INSTRUMENT;
    let terms =
        Amend { stop: Some(Ticks(99)), minimum_execution: Some(Lots(20)), expiry: Some(Expiry::Time(TIME)), ..amend() };
    let hidden = OrderType::Hidden { price: Ticks(101), minimum_execution: Lots(20) };
    let stop_limit = OrderType::StopLimit { stop: Ticks(99), price: Ticks(98) };
    let counts = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let commands = [
        ("add_with_rules", Command::AddInstrument(with_rules())),
        ("enter_hidden", entered(12, hidden, TimeInForce::GoodTillDate { day: DAY })),
        ("enter_stop", entered(13, OrderType::Stop { stop: Ticks(99) }, TimeInForce::GoodTillTime { at: TIME })),
        ("enter_stop_limit", entered(14, stop_limit, TimeInForce::GoodTillCancel)),
        ("enter_cpx", entered(15, OrderType::Market, TimeInForce::ClosingCross)),
        ("amend_terms", Command::Amend(terms)),
        ("amend_date", Command::Amend(Amend { expiry: Some(Expiry::Day(DAY)), ..amend() })),
        (
            "change_session",
            Command::ChangeSession {
                instrument,
                to: Phase::OpeningCall,
                reason: SessionReason::Missed,
                due: TIME,
                ends: Some(VenueNanos(TIME.0 + 5)),
            },
        ),
        (
            "change_session_endless",
            Command::ChangeSession {
                instrument,
                to: Phase::Continuous,
                reason: SessionReason::Operator,
                due: TIME,
                ends: None,
            },
        ),
        ("extend_session", Command::ExtendSession { instrument, ends: TIME }),
        ("set_remaining", Command::SetRemaining { instrument, remaining: RemainingSessions { counts } }),
        ("begin_day", Command::BeginDay { day: DAY, closes: TIME }),
        ("pass_time", Command::PassTime),
        ("filter_hidden", Command::FilterHidden { instrument }),
        ("run_batch", Command::RunBatch { instrument }),
        ("set_rules", Command::SetTradingRules { instrument, rules: rules() }),
        ("set_closing_price", Command::SetClosingPrice { instrument, price: Ticks(102) }),
    ];
    let stamped = |(at, (name, command))| {
        let seq = at as u64 + 1;
        (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(1000 + seq), command })
    };
    commands.into_iter().enumerate().map(stamped).collect()
}

fn trade_of(of: TradeKind) -> Event {
    let mut event = trade(5);
    if let Event::Trade { kind, .. } = &mut event {
        *kind = of;
    }
    event
}

pub fn events() -> Vec<(&'static str, Event)> {
    let (order, account, instrument, side) = (ORDER, ACCOUNT, INSTRUMENT, Side::Sell);
    let indicative = |price, volume, imbalance| Event::Indicative { instrument, price, volume, imbalance };
    vec![
        ("instrument_added_with_rules", Event::InstrumentAdded(with_rules())),
        (
            "accepted_hidden",
            Event::Accepted {
                order,
                account,
                instrument,
                side,
                order_type: OrderType::Hidden { price: Ticks(101), minimum_execution: Lots(20) },
                lots: Lots(40),
                tif: TimeInForce::GoodTillDate { day: DAY },
                display: None,
            },
        ),
        ("trade_filter", trade_of(TradeKind::Filter)),
        ("trade_call", trade_of(TradeKind::Call(Phase::ClosingCall))),
        ("trade_cross", trade_of(TradeKind::Cross)),
        (
            "session_changed",
            Event::SessionChanged {
                instrument,
                from: Phase::Continuous,
                to: Phase::VolatilityCall,
                reason: SessionReason::Breaker,
                ends: Some(TIME),
            },
        ),
        ("parked", Event::Parked { order, account, instrument, open: Lots(40) }),
        ("injected", Event::Injected { order, account, instrument }),
        ("triggered", Event::Triggered { order, account, instrument, last: Ticks(99) }),
        ("indicative", indicative(Some(Ticks(101)), Lots(700), -30)),
        ("indicative_none", indicative(None, Lots(0), 0)),
        ("uncrossed", Event::Uncrossed { instrument, call: Phase::OpeningCall, price: Ticks(101), volume: Lots(700) }),
        (
            "breached",
            Event::Breached {
                instrument,
                price: Ticks(111),
                reference: Ticks(100),
                against: Reference::Dynamic,
                bps: 300,
            },
        ),
        ("closing_price_set", Event::ClosingPriceSet { instrument, price: Ticks(102), derivation: Derivation::Vwap }),
        ("day_begun", Event::DayBegun { day: DAY }),
        ("remaining_set", Event::RemainingSet { instrument }),
        ("rules_set", Event::TradingRulesSet { instrument, rules: rules() }),
        (
            "amended_terms",
            Event::Amended {
                order,
                account,
                instrument,
                side,
                price: Ticks(102),
                lots: Lots(6),
                open: Lots(5),
                kept_priority: true,
                display: None,
                stop: Some(Ticks(99)),
                minimum_execution: Some(Lots(20)),
                expiry: Some(Expiry::Time(TIME)),
            },
        ),
        (
            "cancelled_nothing_executes",
            Event::Cancelled {
                order,
                account,
                instrument,
                side,
                price: Ticks(101),
                open: Lots(3),
                reason: CancelReason::NothingExecutes,
            },
        ),
        ("rejected_not_amendable", Event::Rejected { order, account, reason: Reject::NotAmendable }),
    ]
}
