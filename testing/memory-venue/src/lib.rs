//! A venue without a journal, for tests of the JSON-RPC dialect.
//!
//! Does        implements the venue trait of `crates/deribit` over an engine and projections.
//! Leaves out  durability and a clock: venue time stands still unless a test moves it.
//! Start at    [`MemoryVenue`].

use std::collections::BTreeMap;

use pitwire_deribit::{Venue, VenueStatus};
use pitwire_engine::Engine;
use pitwire_fixtures::share;
use pitwire_journal::LogError;
use pitwire_model::{
    Command, CurrencyId, Decimal, Event, FlowSetting, InstrumentId, InstrumentKind, InstrumentSpec, OrderId, Seq,
    SequencedCommand, Ticks, VenueNanos,
};
use pitwire_projections::{Change, Views};

/// Engine and projections without a journal.
pub struct MemoryVenue {
    pub engine: Engine,
    pub views: Views,
    /// Changes of the projections since the test last took them.
    pub changes: Vec<Change>,
    /// Events of the last command.
    pub events: Vec<Event>,
    /// Settings of the flow by instrument. This venue has no flow.
    pub instrument_flows: BTreeMap<InstrumentId, FlowSetting>,
    /// Number of commands.
    pub commands: u64,
    pub now: VenueNanos,
    pub takes_orders: bool,
    /// Whether every command fails as if the journal had failed.
    pub log_fails: bool,
    /// Whether requests may advance venue time.
    pub is_manual: bool,
}

impl MemoryVenue {
    /// Creates an empty venue that takes orders.
    pub fn new(now: VenueNanos) -> Self {
        MemoryVenue {
            engine: Engine::new(),
            views: Views::new(),
            changes: Vec::new(),
            events: Vec::new(),
            instrument_flows: BTreeMap::new(),
            commands: 0,
            now,
            takes_orders: true,
            log_fails: false,
            is_manual: false,
        }
    }

    /// Submits a command that the engine must not refuse.
    ///
    /// # Panics
    ///
    /// Panics if the log fails or the command is refused.
    pub fn must(&mut self, command: Command) {
        self.submit(command).expect("a log that cannot fail");
        let refused = self.events.iter().any(|event| matches!(event, Event::CommandRefused { .. }));
        assert!(!refused, "{:?}", self.events);
    }
}

impl Venue for MemoryVenue {
    fn submit(&mut self, mut command: Command) -> Result<Seq, LogError> {
        if self.log_fails {
            return Err(LogError::Poisoned);
        }
        self.commands += 1;
        if let Command::Enter(order) = &mut command {
            order.id = OrderId(self.commands);
        }
        let stamped = SequencedCommand { seq: Seq(self.commands), at: self.now, command };
        self.events.clear();
        self.engine.apply(&stamped, &mut self.events);
        self.views.observe(&stamped, &self.events, &mut self.changes);
        Ok(stamped.seq)
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn views(&self) -> &Views {
        &self.views
    }

    fn now(&self) -> VenueNanos {
        self.now
    }

    fn takes_orders(&self) -> bool {
        self.takes_orders
    }

    fn standing(&self) -> VenueStatus {
        VenueStatus { last: Seq(self.commands), is_durable: false, tape_hash: [0; 32] }
    }

    fn instrument_flows(&self) -> &BTreeMap<InstrumentId, FlowSetting> {
        &self.instrument_flows
    }

    fn set_instrument_flow(&mut self, instrument: InstrumentId, setting: FlowSetting) {
        if setting == FlowSetting::default() {
            self.instrument_flows.remove(&instrument);
        } else {
            self.instrument_flows.insert(instrument, setting);
        }
    }

    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>> {
        self.is_manual.then(|| {
            self.now = VenueNanos(self.now.0.saturating_add(ns));
            Ok(self.now)
        })
    }
}

/// One more spot instrument: base, quote, tick, lot (each as mantissa and decimals) and start price
/// in ticks.
pub type SpotRow = (&'static str, &'static str, (i128, u8), (i128, u8), i64);

/// Returns NPN_ZAR, BTC_USDC, the spot instrument of `third`, and BTC-PERPETUAL, in this order.
/// `currency` returns the id of a currency by its name.
pub fn instruments(currency: impl Fn(&str) -> CurrencyId, third: SpotRow) -> Vec<InstrumentSpec> {
    let spot = |(base, quote, tick, lot, start): SpotRow| {
        let kind = InstrumentKind::Spot { base: currency(base), quote: currency(quote) };
        (format!("{base}_{quote}"), kind, tick, lot, start)
    };
    let perpetual = InstrumentKind::InversePerpetual {
        base: currency("BTC"),
        quote: currency("USD"),
        index: InstrumentId(1),
        max_leverage: 50,
    };
    let rows = [
        spot(("NPN", "ZAR", (1, 2), (1, 0), 320_000)),
        spot(("BTC", "USDC", (5, 1), (1, 4), 120_000)),
        spot(third),
        ("BTC-PERPETUAL".to_owned(), perpetual, (5, 1), (10, 0), 120_000),
    ];
    (0..)
        .map(InstrumentId)
        .zip(rows)
        .map(|(id, (name, kind, tick, lot, start))| {
            let (tick, lot) = (Decimal::new(tick.0, tick.1), Decimal::new(lot.0, lot.1));
            InstrumentSpec {
                id,
                name,
                kind,
                tick,
                lot,
                start_price: Ticks(start),
                max_resting_orders: 10_000,
                ..share()
            }
        })
        .collect()
}
