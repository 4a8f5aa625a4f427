//! Counts the instructions of one operation with one feature enabled. `scripts/engine_costs.py`
//! runs it under callgrind, which counts inside `measured` only, and prints the table of
//! `docs/engine-costs.md`.
//!
//!     costs                list the rows
//!     costs FEATURE OP     run that row; print the number of measured operations

use pitwire_fixtures::share;
use std::hint::black_box;
use std::process::ExitCode;

use pitwire_engine::{Engine, EventSink};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Allocation, Amend, Command, Credit, Currency, CurrencyId, Decimal, Event,
    InstrumentId, InstrumentLimits, InstrumentSpec, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase,
    RemainingSessions, Seq, SequencedCommand, SessionReason, Side, Ticks, TimeInForce, Tolerance, TradingRules,
    VenueDay, VenueNanos,
};

const FEATURES: [&str; 12] = [
    "plain",
    "limits",
    "keys",
    "band",
    "tolerances",
    "stop waits",
    "hidden rests",
    "iceberg makers",
    "pro-rata",
    "frequent batch",
    "call",
    "call with hidden",
];
const OPERATIONS: [&str; 7] = ["rest", "fill", "market", "cancel", "less", "move", "rest hidden"];
const MARKET: InstrumentId = InstrumentId(0);
const MIDDLE: i64 = 10_000;
const LOTS: Lots = Lots(10);
const MEASURED: u32 = 400;
/// Operations before the measured ones, which warm up the tables.
const WARMING: u32 = 100;

/// An event sink that discards events.
#[derive(Default)]
struct Listener(u64);

impl EventSink for Listener {
    #[inline]
    fn emit(&mut self, event: Event) {
        black_box(&event);
        self.0 += 1;
    }
}

/// Callgrind counts the instructions inside this function.
#[inline(never)]
fn measured(engine: &mut Engine, stamped: &SequencedCommand, out: &mut Listener) {
    engine.apply(stamped, out);
}

struct Bench {
    engine: Engine,
    out: Listener,
    seq: u64,
    feature: &'static str,
}

impl Bench {
    fn new(feature: &'static str) -> Bench {
        let mut bench = Bench { engine: Engine::new(), out: Listener::default(), seq: 0, feature };
        for command in opening(feature) {
            bench.apply(command);
        }
        for step in 0..100 {
            for side in [Side::Buy, Side::Sell] {
                let away = 10 + step;
                let price = if side == Side::Buy { MIDDLE - away } else { MIDDLE + away };
                for _ in 0..10 {
                    bench.enter(side, OrderType::Limit { price: Ticks(price) }, TimeInForce::Day);
                }
            }
        }
        bench.add_feature();
        bench
    }

    fn add_feature(&mut self) {
        // Far from everything that is measured, and bound to nothing that happens.
        match self.feature {
            "stop waits" => _ = self.enter(Side::Buy, OrderType::Stop { stop: Ticks(50_000) }, TimeInForce::Day),
            "hidden rests" | "call with hidden" => {
                let order_type = OrderType::Hidden { price: Ticks(5_000), minimum_execution: Lots(1) };
                self.enter(Side::Buy, order_type, TimeInForce::Day);
            }
            _ => {}
        }
        if self.feature.starts_with("call") {
            self.apply(to_session(Phase::IntradayCall));
        }
    }

    fn stamped(&mut self, command: Command) -> SequencedCommand {
        self.seq += 1;
        SequencedCommand { seq: Seq(self.seq), at: VenueNanos(32_400_000_000_000 + self.seq), command }
    }

    fn apply(&mut self, command: Command) {
        let stamped = self.stamped(command);
        self.engine.apply(&stamped, &mut self.out);
    }

    fn measure(&mut self, command: Command) {
        let stamped = self.stamped(command);
        measured(&mut self.engine, &stamped, &mut self.out);
    }

    fn order(&self, side: Side, order_type: OrderType, tif: TimeInForce) -> NewOrder {
        let id = OrderId(self.seq + 1);
        let account = AccountId(u32::try_from(self.seq % 8).unwrap_or_default());
        let match_group = if self.feature == "keys" { MatchGroup::Key(7 + account.0) } else { MatchGroup::Order };
        NewOrder { id, account, side, order_type, lots: LOTS, tif, match_group, ..NewOrder::PLAIN }
    }

    fn enter(&mut self, side: Side, order_type: OrderType, tif: TimeInForce) -> (OrderId, AccountId) {
        let order = self.order(side, order_type, tif);
        let named = (order.id, order.account);
        self.apply(Command::Enter(order));
        named
    }

    /// One operation of the row, measured or not, with what makes and unmakes its scene.
    fn operate(&mut self, operation: &str, is_measured: bool) {
        let limit = OrderType::Limit { price: Ticks(MIDDLE - 15) };
        let act = |bench: &mut Bench, command: Command| {
            if is_measured { bench.measure(command) } else { bench.apply(command) }
        };
        match operation {
            "rest" | "rest hidden" => {
                let hidden = OrderType::Hidden { price: Ticks(MIDDLE - 15), minimum_execution: Lots(1) };
                let order_type = if operation == "rest" { limit } else { hidden };
                let order = self.order(Side::Buy, order_type, TimeInForce::Day);
                let (id, account) = (order.id, order.account);
                act(self, Command::Enter(order));
                self.apply(Command::Cancel { account, order: id });
            }
            "fill" | "market" => {
                let price = Ticks(MIDDLE + 1);
                let maker = self.order(Side::Sell, OrderType::Limit { price }, TimeInForce::Day);
                let display = (self.feature == "iceberg makers").then_some(LOTS);
                let maker_lots = if display.is_some() { Lots(2 * LOTS.0) } else { LOTS };
                let (id, account) = (maker.id, maker.account);
                self.apply(Command::Enter(NewOrder { lots: maker_lots, display, ..maker }));
                let order_type = if operation == "fill" { OrderType::Limit { price } } else { OrderType::Market };
                let order = self.order(Side::Buy, order_type, TimeInForce::Day);
                let taker = (order.id, order.account);
                act(self, Command::Enter(order));
                // Whatever is left of either.
                self.apply(Command::Cancel { account, order: id });
                self.apply(Command::Cancel { account: taker.1, order: taker.0 });
            }
            _ => {
                let (order, account) = self.enter(Side::Buy, limit, TimeInForce::Day);
                let amend = |price: i64, lots: u64| {
                    let (price, lots) = (Ticks(price), Lots(lots));
                    Command::Amend(Amend { account, order, price, lots, ..Amend::PLAIN })
                };
                let cancel = Command::Cancel { account, order };
                match operation {
                    "less" => act(self, amend(MIDDLE - 15, 5)),
                    "move" => act(self, amend(MIDDLE - 16, LOTS.0)),
                    _ => act(self, cancel.clone()),
                }
                self.apply(cancel);
            }
        }
    }
}

fn to_session(to: Phase) -> Command {
    let (reason, due) = (SessionReason::Scheduled, VenueNanos(0));
    Command::ChangeSession { instrument: MARKET, to, reason, due, ends: None }
}

fn opening(feature: &str) -> Vec<Command> {
    let currency = |id, name: &str| Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 0 };
    let settings = AccountSettings::default();
    let mut commands = vec![
        Command::BeginDay { day: VenueDay(20_000), closes: VenueNanos(u64::MAX) },
        Command::AddCurrency(currency(0, "GOODS")),
        Command::AddCurrency(currency(1, "MONEY")),
    ];
    commands.extend((0..8).map(|id| {
        let name = format!("account {id}");
        Command::AddAccount(AccountSpec { id: AccountId(id), name, credit: Credit::Unlimited, settings })
    }));
    let limits = InstrumentLimits {
        max_lots: Some(Lots(1_000_000)),
        max_notional_units: Some(1 << 60),
        collar_bps: Some(5_000),
    };
    commands.push(Command::AddInstrument(Box::new(InstrumentSpec {
        id: MARKET,
        name: "COSTS".to_owned(),
        tick: Decimal::new(1, 0),
        start_price: Ticks(MIDDLE),
        max_resting_orders: 1_000_000,
        limits: if feature == "limits" { limits } else { InstrumentLimits::default() },
        rules: Some(Box::new(rules(feature))),
        ..share()
    })));
    let remaining = RemainingSessions { counts: [9; 16] };
    commands.extend([to_session(Phase::Continuous), Command::SetRemaining { instrument: MARKET, remaining }]);
    commands
}

fn rules(feature: &str) -> TradingRules {
    let wide = Tolerance { static_bps: Some(5_000), dynamic_bps: Some(5_000) };
    TradingRules {
        band_pct: (feature == "band").then_some(50),
        tolerances: [if feature == "tolerances" { wide } else { Tolerance::default() }; 7],
        allocation: match feature {
            "pro-rata" => Allocation::ProRata,
            "frequent batch" => Allocation::FrequentBatch,
            _ => Allocation::PriceTime,
        },
        ..TradingRules::default()
    }
}

/// Returns whether a combination makes sense, and so has a row.
fn is_row(feature: &str, operation: &str) -> bool {
    let gathers = feature.starts_with("call") || feature == "frequent batch";
    let fills = ["fill", "market"].contains(&operation);
    match feature {
        "iceberg makers" => fills,
        _ if gathers => !fills && operation != "rest hidden",
        _ => true,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [feature, operation] = arguments.as_slice() else {
        for feature in FEATURES {
            OPERATIONS.iter().filter(|op| is_row(feature, op)).for_each(|op| println!("{feature}\t{op}"));
        }
        return ExitCode::SUCCESS;
    };
    let known = FEATURES.into_iter().find(|name| name == feature).filter(|name| is_row(name, operation));
    let Some(feature) = known.filter(|_| OPERATIONS.contains(&operation.as_str())) else {
        eprintln!("costs: there is no row {feature}, {operation}; costs without arguments lists them");
        return ExitCode::from(2);
    };
    let mut bench = Bench::new(feature);
    for n in 0..WARMING + MEASURED {
        bench.operate(operation, n >= WARMING);
    }
    black_box(bench.out.0);
    println!("{MEASURED}");
    ExitCode::SUCCESS
}
