//! A test market with one instrument and one house account, and the public channels of it.
#![allow(dead_code)] // each test binary uses its part

use pitwire_deribit::channels::{ChannelCursor, FeedId, PublicChannels, Subscribed};
use pitwire_deribit::codec::Channel;
use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, Event, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Phase, SelfMatch, Seq, Stamped, Ticks, VenueNanos,
};
use pitwire_projections::Views;
use serde_json::Value;

pub struct Floor {
    pub engine: Engine,
    pub views: Views,
    pub publisher: PublicChannels,
    pub seq: u64,
    pub at: u64,
    /// Number of book changes that a test has published directly.
    pub changes: u64,
}

impl Floor {
    pub fn new() -> Self {
        let engine = Engine::new();
        let publisher = PublicChannels::new(&engine);
        let mut floor = Floor { engine, views: Views::new(), publisher, seq: 0, at: 0, changes: 0 };
        for (id, name) in [(0, "NPN"), (1, "ZAR")] {
            floor.apply(Command::AddCurrency(Currency { id: CurrencyId(id), name: name.into(), decimals: 2 }));
        }
        floor.apply(Command::AddInstrument(Box::new(InstrumentSpec {
            id: InstrumentId(0),
            name: "NPN_ZAR".into(),
            kind: InstrumentKind::Spot { base: CurrencyId(0), quote: CurrencyId(1) },
            tick: Decimal::new(1, 2),
            lot: Decimal::new(1, 0),
            start_price: Ticks(100),
            max_resting_orders: 1_000,
            limits: InstrumentLimits::default(),
            rules: None,
        })));
        let account = AccountSpec {
            id: AccountId(0),
            name: "house".into(),
            credit: Credit::Unlimited,
            // The house account trades with itself, because it is the only account.
            settings: AccountSettings { self_match: SelfMatch::Allow, ..AccountSettings::default() },
        };
        floor.apply(Command::AddAccount(account));
        floor.apply(Command::SetPhase { instrument: InstrumentId(0), phase: Phase::Continuous });
        floor
    }

    pub fn apply(&mut self, command: Command) {
        self.seq += 1;
        let stamped = Stamped { seq: Seq(self.seq), at: VenueNanos(self.at), command };
        let mut events = Vec::new();
        self.engine.apply(&stamped, &mut events);
        self.views.observe(&stamped, &events, &mut Vec::new());
        self.publisher.observe(&stamped, &events, &self.engine, &self.views);
    }

    /// Publishes events as if one command had caused them.
    pub fn tell(&mut self, events: &[Event]) {
        self.seq += 1;
        let stamped = Stamped { seq: Seq(self.seq), at: VenueNanos(self.at), command: Command::PassTime };
        self.views.observe(&stamped, events, &mut Vec::new());
        self.publisher.observe(&stamped, events, &self.engine, &self.views);
    }

    pub fn subscribe(&mut self, name: &str) -> Option<Subscribed> {
        let channel = Channel::parse(name).expect("a channel");
        self.publisher.subscribe(&channel, &self.engine, &self.views, VenueNanos(self.at))
    }
}

/// A subscriber of one channel.
pub struct Reader {
    pub feed: FeedId,
    cursor: ChannelCursor,
    pub first: Option<Value>,
}

impl Reader {
    pub fn join(floor: &mut Floor, name: &str) -> Self {
        let joined = floor.subscribe(name).unwrap_or_else(|| panic!("no {name}"));
        let first = joined.first.map(|text| data(&text));
        Reader { feed: joined.feed, cursor: joined.cursor, first }
    }

    pub fn read(&mut self, floor: &mut Floor) -> Vec<Value> {
        floor.publisher.release();
        let mut all = Vec::new();
        while floor.publisher.peek(self.feed, &mut self.cursor).expect("not overrun").is_some() {
            let mut frame = Vec::new();
            floor.publisher.read(self.feed, &mut self.cursor, &mut frame).expect("it was there");
            let header = [2, 4, 10][usize::from(frame[1].saturating_sub(125).min(2))];
            all.push(data(&frame[header..]));
        }
        all
    }
}

fn data(text: &[u8]) -> Value {
    serde_json::from_slice::<Value>(text).expect("JSON")["params"]["data"].clone()
}
