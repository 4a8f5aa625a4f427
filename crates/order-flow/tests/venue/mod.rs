//! Test fixture: a real engine with the demo preset's instruments. The tests and the soak example
//! drive flows with it.
//!
//! Start at    [`Venue::step`].
#![allow(dead_code)] // each program that includes it uses its own part

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, Event, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Phase, SelfMatch, Seq, SequencedCommand, Ticks, VenueNanos,
};
use pitwire_order_flow::{Flow, FlowConfig};

pub const START: VenueNanos = VenueNanos(1_767_225_600_000_000_000); // 2026-01-01 00:00 UTC
pub const SECOND: u64 = 1_000_000_000;
pub const HOUSE: u32 = 8;

/// Name, tick, lot and start price in ticks of each spot instrument.
const SPOT: [(&str, Decimal, Decimal, i64); 10] = [
    ("NPN_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 325_000),
    ("AGL_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 51_000),
    ("SOL_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 11_800),
    ("MTN_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 9_600),
    ("FSR_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 7_200),
    ("AUC_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 10_000),
    ("SBK_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 21_500),
    ("BHG_ZAR", Decimal::new(1, 2), Decimal::new(1, 0), 48_000),
    ("BTC_USDC", Decimal::new(5, 1), Decimal::new(1, 4), 120_000),
    ("ETH_USDC", Decimal::new(5, 2), Decimal::new(1, 3), 60_000),
];

pub struct Venue {
    pub engine: Engine,
    pub flow: Flow,
    pub seq: Seq,
    pub events: Vec<Event>,
}

/// Command that `step` applied, if any. Its events are in `Venue::events`.
pub type AppliedCommand = Option<SequencedCommand>;

pub fn house() -> Vec<AccountId> {
    (0..HOUSE).map(AccountId).collect()
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap()
}

fn definitions() -> Vec<Command> {
    let mut commands = Vec::new();
    let mut names: Vec<(String, u8)> = vec![("ZAR".into(), 2), ("USDC".into(), 6), ("USD".into(), 2)];
    names.extend(SPOT.iter().map(|(name, ..)| (name.split('_').next().unwrap_or(name).to_owned(), 8)));
    let currency = |name: &str| CurrencyId(number(names.iter().position(|known| known.0 == name).unwrap()));
    let spot = SPOT.iter().enumerate().map(|(at, (name, tick, lot, start))| {
        let (base, quote) = name.split_once('_').unwrap();
        let kind = InstrumentKind::Spot { base: currency(base), quote: currency(quote) };
        spec(at, name, kind, (*tick, *lot), *start)
    });
    let kind = InstrumentKind::InversePerpetual {
        base: currency("BTC"),
        quote: currency("USD"),
        index: InstrumentId(8),
        max_leverage: 50,
    };
    let perpetual = spec(SPOT.len(), "BTC-PERPETUAL", kind, (Decimal::new(5, 1), Decimal::new(10, 0)), 120_000);
    let instruments = spot.chain([perpetual]);
    for (at, (name, decimals)) in names.iter().enumerate() {
        commands.push(Command::AddCurrency(Currency {
            id: CurrencyId(number(at)),
            name: name.clone(),
            decimals: *decimals,
        }));
    }
    commands.extend(instruments.map(|spec| Command::AddInstrument(Box::new(spec))));
    for at in 0..HOUSE {
        let name = format!("house-{at}");
        commands.push(Command::AddAccount(AccountSpec {
            id: AccountId(at),
            name,
            credit: Credit::Unlimited,
            // As on a real venue, the flow may trade with itself.
            settings: AccountSettings { self_match: SelfMatch::Allow, ..AccountSettings::default() },
        }));
    }
    commands
}

fn spec(at: usize, name: &str, kind: InstrumentKind, (tick, lot): (Decimal, Decimal), start: i64) -> InstrumentSpec {
    let (id, name, start_price) = (InstrumentId(number(at)), name.to_owned(), Ticks(start));
    InstrumentSpec {
        id,
        name,
        kind,
        tick,
        lot,
        start_price,
        max_resting_orders: 200_000,
        limits: InstrumentLimits::default(),
        rules: None,
    }
}

/// Returns the demo preset's engine with every instrument in continuous trading.
pub fn engine() -> Engine {
    let mut engine = closed_engine();
    for at in 0..engine.markets().len() {
        set_phase(&mut engine, InstrumentId(number(at)), Phase::Continuous);
    }
    engine
}

pub fn closed_engine() -> Engine {
    let mut engine = Engine::new();
    for command in definitions() {
        let mut events = Vec::new();
        engine.apply(&SequencedCommand { seq: Seq(0), at: START, command }, &mut events);
        assert!(!matches!(events[0], Event::CommandRefused { .. }), "{events:?}");
    }
    engine
}

fn set_phase(engine: &mut Engine, instrument: InstrumentId, phase: Phase) {
    let command = Command::SetPhase { instrument, phase };
    engine.apply(&SequencedCommand { seq: Seq(0), at: START, command }, &mut Vec::new());
}

impl Venue {
    pub fn demo(seed: u64) -> Venue {
        let engine = engine();
        let flow = Flow::new(FlowConfig::demo(&engine, house()), seed, START, &engine).unwrap();
        Venue::with(engine, flow, Seq(1000))
    }

    pub fn with(engine: Engine, flow: Flow, seq: Seq) -> Venue {
        Venue { engine, flow, seq, events: Vec::new() }
    }

    /// Runs the next due event. Returns `None` if it led to no command.
    pub fn step(&mut self) -> AppliedCommand {
        let (at, command) = self.flow.next(&self.engine)?;
        Some(self.submit(at, command))
    }

    /// Sequences and applies a command, as the host would.
    pub fn submit(&mut self, at: VenueNanos, mut command: Command) -> SequencedCommand {
        self.seq = self.seq.next();
        if let Command::Enter(order) = &mut command {
            order.id = pitwire_model::OrderId(self.seq.0);
        }
        let stamped = SequencedCommand { seq: self.seq, at, command };
        self.events.clear();
        self.engine.apply(&stamped, &mut self.events);
        self.flow.observe(&stamped, &self.events);
        stamped
    }

    /// Runs until the given number of seconds after the start.
    pub fn run_until(&mut self, seconds: u64) {
        while self.flow.next_due().is_some_and(|due| due.0 < START.0 + seconds * SECOND) {
            self.step();
        }
    }
}
