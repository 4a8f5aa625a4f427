//! Hidden orders leave no trace: the public bytes of each command are the same with and without a
//! hidden order that never trades (rulebook 18).
//!
//! Each world is played twice. The second run enters, amends and cancels secret orders among the
//! same commands. Each is so large, and has so large a minimum, that it can never execute. The
//! public output of both runs must be equal, and a command on a secret order must have none.

use pitwire_engine::Engine;
use pitwire_fixtures::share;
use pitwire_journal::records::encode_public_event;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Command, Credit, Currency, CurrencyId, Decimal, Event,
    InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Priority, RemainingSessions, SelfMatch,
    Seq, SequencedCommand, SessionReason, Side, Ticks, TimeInForce, Tolerance, TradingRules, VenueDay, VenueNanos,
};
use pitwire_random::SplitMix64;

const SHARE: InstrumentId = InstrumentId(0);
const ACCOUNTS: u32 = 5;
/// The account of the secret orders. No other order belongs to it, so that self-match prevention
/// never meets one.
const SECRET: AccountId = AccountId(ACCOUNTS);
const SECRET_IDS: u64 = 1 << 40;
const HUGE: u64 = 4_000_000_000;

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("a short list")]
    }

    fn price(&mut self) -> Ticks {
        Ticks(90 + i64::try_from(self.below(21)).expect("small"))
    }

    fn side(&mut self) -> Side {
        self.pick(&[Side::Buy, Side::Sell])
    }
}

fn opening(random: &mut Random) -> Vec<Command> {
    let currency = |id: u32, name: &str| Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 0 };
    let tolerance =
        Tolerance { static_bps: random.one_in(3).then_some(900), dynamic_bps: random.one_in(3).then_some(600) };
    let rules = TradingRules {
        improvement: Ticks(1 + i64::from(random.one_in(3)) * 4),
        tolerances: [tolerance; 7],
        ..TradingRules::default()
    };
    let spec = InstrumentSpec {
        id: SHARE,
        name: "AAA_ZAR".to_owned(),
        tick: Decimal::new(1, 0),
        max_resting_orders: 100_000,
        rules: Some(Box::new(rules)),
        ..share()
    };
    let account = |id: u32| {
        let settings = AccountSettings { self_match: SelfMatch::CancelResting, ..AccountSettings::default() };
        Command::AddAccount(AccountSpec {
            id: AccountId(id),
            name: format!("account-{id}"),
            credit: Credit::Unlimited,
            settings,
        })
    };
    let mut commands = vec![Command::AddCurrency(currency(0, "AAA")), Command::AddCurrency(currency(1, "ZAR"))];
    commands.extend((0..=ACCOUNTS).map(account));
    commands.push(Command::AddInstrument(Box::new(spec)));
    commands.push(Command::BeginDay { day: VenueDay(20_000), closes: VenueNanos(u64::MAX) });
    commands.push(Command::SetRemaining { instrument: SHARE, remaining: RemainingSessions { counts: [200; 16] } });
    commands.push(change(Phase::Continuous));
    commands
}

fn change(to: Phase) -> Command {
    let (reason, due) = (SessionReason::Scheduled, VenueNanos(0));
    Command::ChangeSession { instrument: SHARE, to, reason, due, ends: None }
}

/// A command that any member might send.
fn usual(random: &mut Random, id: u64, known: &mut Vec<(OrderId, AccountId)>) -> Command {
    let account = AccountId(u32::try_from(random.below(u64::from(ACCOUNTS))).expect("a handful"));
    match random.below(40) {
        0..=26 => {
            let order = order(random, id, account);
            known.push((order.id, account));
            Command::Enter(order)
        }
        27..=31 if !known.is_empty() => {
            let (order, account) = random.pick(known);
            Command::Cancel { account, order }
        }
        32..=35 if !known.is_empty() => {
            let (order, account) = random.pick(known);
            let (price, lots) = (random.price(), Lots(1 + random.below(30)));
            Command::Amend(Amend { account, order, price, lots, priority: Priority::KeepWhenReduced, ..Amend::PLAIN })
        }
        36 | 37 => Command::FilterHidden { instrument: SHARE },
        38 => Command::PassTime,
        _ => change(random.pick(&[
            Phase::Continuous,
            Phase::Continuous,
            Phase::Continuous,
            Phase::IntradayCall,
            Phase::VolatilityCall,
            Phase::ClosingCall,
            Phase::ClosingPricePublication,
            Phase::ClosingPriceCross,
            Phase::Halted,
            Phase::Pause,
        ])),
    }
}

fn order(random: &mut Random, id: u64, account: AccountId) -> NewOrder {
    let (lots, price, stop) = (1 + random.below(30), random.price(), random.price());
    let order_type = match random.below(12) {
        0..=5 => OrderType::Limit { price },
        6 => OrderType::Market,
        7..=9 => OrderType::Hidden { price, minimum_execution: Lots(1 + random.below(lots)) },
        10 => OrderType::Stop { stop },
        _ => OrderType::StopLimit { stop, price },
    };
    let is_limit = matches!(order_type, OrderType::Limit { .. });
    let tif = match order_type {
        OrderType::Hidden { .. } => TimeInForce::Day,
        _ if random.one_in(6) => TimeInForce::ImmediateOrCancel,
        _ if random.one_in(8) => TimeInForce::FillOrKill,
        _ if is_limit && random.one_in(6) => TimeInForce::AnyCall,
        _ => TimeInForce::Day,
    };
    let display = (is_limit && tif.rests() && random.one_in(4)).then(|| Lots(1 + random.below(lots)));
    let side = random.side();
    NewOrder {
        id: OrderId(id),
        account,
        instrument: SHARE,
        side,
        order_type,
        lots: Lots(lots),
        tif,
        display,
        ..NewOrder::PLAIN
    }
}

/// A command on a secret order. All secret orders are on one side, because two opposite ones would
/// match.
fn secret(random: &mut Random, id: u64, side: Side, hidden: &mut Vec<OrderId>) -> Command {
    let price = Ticks(85 + i64::try_from(random.below(31)).expect("small"));
    let lots = Lots(HUGE + random.below(1_000));
    if hidden.is_empty() || random.one_in(2) {
        let order_type = OrderType::Hidden { price, minimum_execution: lots };
        let id = OrderId(SECRET_IDS + id);
        hidden.push(id);
        return Command::Enter(NewOrder {
            id,
            account: SECRET,
            instrument: SHARE,
            side,
            order_type,
            lots,
            ..NewOrder::PLAIN
        });
    }
    let order = random.pick(hidden);
    if random.one_in(3) {
        return Command::Cancel { account: SECRET, order };
    }
    let lots = Lots(HUGE + random.below(1_000));
    // No other order can reach this minimum.
    let minimum_execution = Some(Lots(HUGE));
    let amend = Amend { account: SECRET, order, price, lots, minimum_execution, ..Amend::PLAIN };
    Command::Amend(amend)
}

/// Returns the public bytes of a command.
fn public_bytes(engine: &mut Engine, seq: u64, command: Command, events: &mut Vec<Event>) -> Vec<u8> {
    let at = VenueNanos(seq * 1_000);
    events.clear();
    engine.apply(&SequencedCommand { seq: Seq(seq), at, command }, events);
    let mut bytes = Vec::new();
    for event in events.iter() {
        encode_public_event(at, event, &mut bytes);
    }
    bytes
}

struct TraceCounts {
    secrets: usize,
    hidden_trades: usize,
    calls: usize,
}

/// Plays one world twice. Panics where the public output differs.
fn play(seed: u64, seen: &mut TraceCounts) {
    let mut random = Random(SplitMix64::new(seed));
    let (mut open, mut with_secrets) = (Engine::new(), Engine::new());
    let (mut known, mut hidden, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let (opening, side) = (opening(&mut random), random.side());
    for step in 1..=400_u64 {
        if step > opening.len() as u64 && random.one_in(3) {
            let command = secret(&mut random, step, side, &mut hidden);
            let text = format!("{command:?}");
            let bytes = public_bytes(&mut with_secrets, step, command, &mut events);
            assert!(bytes.is_empty(), "seed {seed}, step {step}: {text} is published: {events:?}");
            seen.secrets += usize::from(events.iter().any(|event| matches!(event, Event::Accepted { .. })));
            continue;
        }
        let command = match opening.get(usize::try_from(step - 1).expect("few")) {
            Some(command) => command.clone(),
            None => usual(&mut random, step, &mut known),
        };
        let text = format!("{command:?}");
        let without = public_bytes(&mut open, step, command.clone(), &mut events);
        seen.calls += events.iter().filter(|event| matches!(event, Event::Indicative { .. })).count();
        let public_events = events.clone();
        let with = public_bytes(&mut with_secrets, step, command, &mut events);
        seen.hidden_trades += events.iter().filter(|event| trades_by_filter(event)).count();
        assert_eq!(without, with, "seed {seed}, step {step}: {text}\nwithout: {public_events:#?}\nwith: {events:#?}");
    }
}

fn trades_by_filter(event: &Event) -> bool {
    matches!(event, Event::Trade { kind: pitwire_model::TradeKind::Filter, .. })
}

#[test]
fn a_hidden_order_that_never_trades_leaves_no_trace() {
    let seeds: Vec<u64> = match std::env::var("TEST_SEED") {
        Ok(text) => vec![text.parse().expect("TEST_SEED is a number")],
        Err(_) => (0..1_500).collect(),
    };
    let mut seen = TraceCounts { secrets: 0, hidden_trades: 0, calls: 0 };
    for seed in &seeds {
        play(*seed, &mut seen);
    }
    let TraceCounts { secrets, hidden_trades, calls } = seen;
    println!("{secrets} secret orders, {hidden_trades} trades by filters, {calls} indications");
    if seeds.len() > 1 {
        assert!(
            secrets > 15_000 && hidden_trades > 1_000 && calls > 10_000,
            "{secrets}, {hidden_trades}, {calls}: too tame"
        );
    }
}
