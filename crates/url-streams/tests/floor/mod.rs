//! Test fixture: a small market with one instrument and one account, streams, and readers.
#![allow(dead_code)] // each test binary uses its part

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, SelfMatch, Seq, Side,
    Stamped, Ticks, TimeInForce, VenueNanos,
};
use pitwire_projections::Views;
use pitwire_url_streams::{Here, Numbered, Opened, Session, Sink, Stamps, StreamId, Streams};
use serde_json::Value;

pub struct Floor {
    pub engine: Engine,
    pub views: Views,
    pub streams: Streams,
    pub told: Told,
    pub seq: u64,
    pub at: u64,
}

/// All messages, by stream.
#[derive(Default)]
pub struct Told {
    pub by_stream: BTreeMap<StreamId, Vec<String>>,
    /// The streams in the order of their messages.
    pub order: Vec<StreamId>,
}

impl Sink for Told {
    fn tell(&mut self, stream: StreamId, payload: &[u8], numbered: Option<Numbered>) {
        let mut whole = Vec::new();
        match numbered {
            Some(place) => place.fill(payload, 0, &mut whole),
            None => whole.extend_from_slice(payload),
        }
        self.by_stream.entry(stream).or_default().push(String::from_utf8(whole).expect("text"));
        self.order.push(stream);
    }

    fn stamps(&mut self, at: VenueNanos) -> Stamps {
        Stamps { due_ns: at.0, mono_ns: at.0 + 1, ts_ns: at.0 + 2 }
    }
}

impl Floor {
    pub fn new() -> Self {
        let (engine, views) = (Engine::new(), Views::new());
        let streams = Streams::new(&engine, &views);
        let mut floor = Floor { engine, views, streams, told: Told::default(), seq: 0, at: 0 };
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
            // The account trades with itself, because the market has only one.
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
        self.streams.observe(&stamped, &events, &self.engine, &self.views, &mut self.told);
    }

    /// Enters a good-till-cancelled limit order.
    pub fn enter(&mut self, side: Side, price: i64, lots: u64) -> OrderId {
        let id = OrderId(self.seq + 1);
        self.apply(Command::Enter(NewOrder {
            id,
            side,
            order_type: OrderType::Limit { price: Ticks(price) },
            lots: Lots(lots),
            tif: TimeInForce::GoodTillCancel,
            ..NewOrder::PLAIN
        }));
        id
    }

    pub fn cancel(&mut self, order: OrderId) {
        self.apply(Command::Cancel { account: AccountId(0), order });
    }

    /// Advances time and ends a window.
    pub fn window(&mut self, at_ms: u64) {
        self.at = at_ms * 1_000_000;
        self.apply(Command::CloseWindow);
    }

    /// Begins a minute in which nothing else happens.
    pub fn minute(&mut self, at_ms: u64) {
        let Floor { engine, views, streams, told, .. } = self;
        streams.turn_minute(Here { engine, views, at: VenueNanos(at_ms * 1_000_000) }, told);
    }

    pub fn open(&mut self, target: &str) -> Opened {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Session::open(path, query, self.streams.directory()).expect("a stream's path").expect("not refused")
    }

    /// Joins the only stream of a target.
    pub fn join(&mut self, target: &str) -> StreamId {
        let opened = self.open(target);
        let [key] = opened.join[..] else { panic!("{target}: {:?}", opened.join) };
        self.streams.listen(key, &self.engine).expect("of this venue")
    }

    pub fn first(&mut self, stream: StreamId) -> Option<String> {
        let here = Here { engine: &self.engine, views: &self.views, at: VenueNanos(self.at) };
        let (payload, numbered) = self.streams.first(stream, here, &mut self.told)?;
        let mut whole = Vec::new();
        match numbered {
            Some(place) => place.fill(&payload, 0, &mut whole),
            None => whole = payload,
        }
        Some(String::from_utf8(whole).expect("text"))
    }

    /// Returns a stream's messages since the last call.
    pub fn heard(&mut self, stream: StreamId) -> Vec<String> {
        self.told.by_stream.remove(&stream).unwrap_or_default()
    }

    pub fn rest(&self, target: &str) -> Value {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let here = Here { engine: &self.engine, views: &self.views, at: VenueNanos(self.at) };
        let answer = self.streams.rest(path, query, here).expect("something is there");
        let body = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(answer.status, 200, "{target}: {body}");
        body
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
