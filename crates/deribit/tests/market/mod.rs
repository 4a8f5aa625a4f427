//! A test market with one instrument and one house account, and the public channels of it.

use pitwire_deribit::channels::{ChannelCursor, ChannelId, PublicChannels, SubscriptionStart};
use pitwire_deribit::codec::Channel;
use pitwire_engine::Engine;
use pitwire_fixtures::{open_market, share};
use pitwire_model::{Command, Event, Seq, SequencedCommand, VenueNanos};
use pitwire_projections::Views;
use serde_json::Value;

pub struct MarketFixture {
    pub engine: Engine,
    pub views: Views,
    pub publisher: PublicChannels,
    pub seq: u64,
    pub at: u64,
    /// Number of book changes that a test has published directly.
    pub changes: u64,
}

impl MarketFixture {
    pub fn new() -> Self {
        let engine = Engine::new();
        let publisher = PublicChannels::new(&engine);
        let mut fixture = MarketFixture { engine, views: Views::new(), publisher, seq: 0, at: 0, changes: 0 };
        open_market(share()).for_each(|command| fixture.apply(command));
        fixture
    }

    pub fn apply(&mut self, command: Command) {
        self.seq += 1;
        let stamped = SequencedCommand { seq: Seq(self.seq), at: VenueNanos(self.at), command };
        let mut events = Vec::new();
        self.engine.apply(&stamped, &mut events);
        self.views.observe(&stamped, &events, &mut Vec::new());
        self.publisher.observe(&stamped, &events, &self.engine, &self.views);
    }

    /// Publishes events as if one command had caused them.
    pub fn observe(&mut self, events: &[Event]) {
        self.seq += 1;
        let stamped = SequencedCommand { seq: Seq(self.seq), at: VenueNanos(self.at), command: Command::PassTime };
        self.views.observe(&stamped, events, &mut Vec::new());
        self.publisher.observe(&stamped, events, &self.engine, &self.views);
    }

    pub fn subscribe(&mut self, name: &str) -> Option<SubscriptionStart> {
        let channel = Channel::parse(name).expect("a channel");
        self.publisher.subscribe(&channel, &self.engine, &self.views, VenueNanos(self.at))
    }
}

/// A subscriber of one channel.
pub struct Reader {
    pub feed: ChannelId,
    cursor: ChannelCursor,
    pub first: Option<Value>,
}

impl Reader {
    pub fn join(fixture: &mut MarketFixture, name: &str) -> Self {
        let joined = fixture.subscribe(name).unwrap_or_else(|| panic!("no {name}"));
        let first = joined.first.map(|text| data(&text));
        Reader { feed: joined.feed, cursor: joined.cursor, first }
    }

    pub fn read(&mut self, fixture: &mut MarketFixture) -> Vec<Value> {
        fixture.publisher.release();
        let mut all = Vec::new();
        while fixture.publisher.peek(self.feed, &mut self.cursor).expect("not overrun").is_some() {
            let mut frame = Vec::new();
            fixture.publisher.read(self.feed, &mut self.cursor, &mut frame).expect("it was there");
            let header = [2, 4, 10][usize::from(frame[1].saturating_sub(125).min(2))];
            all.push(data(&frame[header..]));
        }
        all
    }
}

fn data(text: &[u8]) -> Value {
    serde_json::from_slice::<Value>(text).expect("JSON")["params"]["data"].clone()
}
