//! Channels that are published, removed and published again.

use pitwire_configuration::demo;
use pitwire_engine::Engine;
use pitwire_gateway::protocol::Batch;
use pitwire_model::{AccountId, Command, InstrumentId, Label, Lots, NewOrder, OrderType, Side, Ticks, VenueNanos};
use pitwire_schedule::{ContinuousCalendar, TimerQueue};
use pitwire_venue::{EventQueue, Venue};

use super::*;
use crate::service::ServiceOptions;

const TRADES: &str = "trades.NPN_ZAR.100ms";
const STREAM: &str = "stream/npnzar@trade";

fn venue() -> VenueService {
    let timers = TimerQueue::starting(Box::new(ContinuousCalendar), &Engine::new(), VenueNanos(0), VenueNanos(0));
    let mut service = VenueService::new(Venue::in_memory(EventQueue::new(timers)), ServiceOptions::default());
    for command in demo().commands().unwrap() {
        service.submit_at(VenueNanos(1), command).unwrap();
    }
    service.venue.commit().unwrap();
    service
}

/// A bus without a NATS server.
fn bus() -> Bus {
    let (url, subject) = ("nats://127.0.0.1:1".to_owned(), "t".to_owned());
    let key = BusKey::new([7; 32]);
    Bus::open(VenuePublication { url, subject, epoch: 9, venue_url: String::new(), key }).unwrap()
}

fn nothing(_: &VenueService, _: (&Channel, &SubscriptionStart)) -> Vec<Vec<u8>> {
    Vec::new()
}

fn life() -> VenueEpoch {
    VenueEpoch { epoch: 4, remembers: true }
}

/// Returns the messages after a sequence number: number, channel, and whether it reports a removal.
fn sent(bus: &Bus, from: u64) -> Vec<(u64, String, bool)> {
    let batches = bus.batches_from(from);
    let batches = batches.iter().map(|bytes| Batch::parse(bytes).unwrap());
    let messages = batches.flat_map(|batch| batch.messages().collect::<Vec<_>>());
    messages.map(|message| (message.seq, message.channel.to_owned(), message.is_removal())).collect()
}

#[test]
fn removed_channel_is_reported_before_it_returns() {
    let (mut service, mut bus, mut notices) = (venue(), bus(), Notices::default());
    let first = bus.join(TRADES, &mut service, 0, nothing);
    bus.join(STREAM, &mut service, 0, nothing);
    assert_eq!((first.outcome, first.since, first.last), (ReplyOutcome::Done, 0, 0));
    bus.keep(STREAM, LEASE_NS / 2);
    bus.attend(&mut service, life(), LEASE_NS - 1, &mut notices);
    assert_eq!(sent(&bus, 1), []);
    bus.attend(&mut service, life(), LEASE_NS + SWEEP_NS, &mut notices);
    assert_eq!(sent(&bus, 1), [(1, TRADES.into(), true)], "the other is still wanted");
    // A gateway that missed the removal must not believe that it has every message.
    let again = bus.join(TRADES, &mut service, LEASE_NS + SWEEP_NS, nothing);
    assert_eq!((again.since, again.last), (1, 1));
    bus.attend(&mut service, life(), 4 * LEASE_NS, &mut notices);
    let mut left = sent(&bus, 2);
    left.sort_unstable_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(
        left.iter().map(|(_, name, leaves)| (name.as_str(), *leaves)).collect::<Vec<_>>(),
        [(STREAM, true), (TRADES, true)]
    );
}

/// Enters a bid at a price and runs the venue to the next boundary.
fn bid(service: &mut VenueService, at_ms: u64, price: i64) {
    let order = NewOrder {
        account: AccountId(0),
        instrument: InstrumentId(0),
        side: Side::Buy,
        order_type: OrderType::Limit { price: Ticks(price) },
        lots: Lots(1),
        label: Label::new("").unwrap(),
        ..NewOrder::PLAIN
    };
    service.submit_at(VenueNanos(at_ms * 1_000_000), Command::Enter(order)).unwrap();
    while service.step(VenueNanos((at_ms + 100) * 1_000_000)).unwrap() {}
    service.venue.commit().unwrap();
    service.market_data.publisher.release();
}

/// Returns a venue whose book changed three times since the bus joined it, and the `change_id` at
/// the join.
fn with_three_bids(name: &str) -> (VenueService, Bus, u64) {
    let (mut service, mut bus) = (venue(), bus());
    let begun: serde_json::Value = serde_json::from_slice(&bus.join(name, &mut service, 0, nothing).first).unwrap();
    let start = begun["params"]["data"]["change_id"].as_u64().unwrap();
    for n in 0..3 {
        bid(&mut service, 1_000 + n * 200, 2_000 + i64::try_from(n).unwrap());
        bus.collect(&service.market_data.publisher);
    }
    (service, bus, start)
}

#[test]
fn missed_book_changes_merge_into_one() {
    let name = "book.NPN_ZAR.100ms";
    let (mut service, mut bus, start) = with_three_bids(name);
    // Each request comes in its own second.
    let mut now_ns = 0;
    let mut later = || {
        now_ns += 1_000_000_000;
        now_ns
    };
    let reply = bus.merged(name, start, &service.market_data.publisher, later());
    assert_eq!((reply.outcome, reply.last), (ReplyOutcome::Done, 3));
    let change: serde_json::Value = serde_json::from_slice(&reply.first).unwrap();
    let change = &change["params"]["data"];
    assert_eq!((&change["type"], &change["prev_change_id"]), (&"change".into(), &start.into()));
    assert_eq!(change["bids"].as_array().unwrap().len(), 3);
    // The change leads to the state of the last published message.
    let batch = bus.batches_from(3).pop().unwrap();
    let last = Batch::parse(&batch).unwrap().messages().last().unwrap().frame.to_vec();
    let text = String::from_utf8_lossy(&last).into_owned();
    let newest = change["change_id"].as_u64().unwrap();
    assert!(text.contains(&format!("\"change_id\":{newest},")), "{newest}: {text}");
    let same = bus.merged(name, newest, &service.market_data.publisher, later());
    assert_eq!((same.outcome, same.first.len()), (ReplyOutcome::Done, 0));
    // Unpublished messages would arrive twice. Nothing is known of channels that are not published.
    bid(&mut service, 2_000, 2_050);
    assert_eq!(bus.merged(name, start, &service.market_data.publisher, later()).outcome, ReplyOutcome::Full);
    bus.collect(&service.market_data.publisher);
    assert_eq!(bus.merged(name, start, &service.market_data.publisher, later()).outcome, ReplyOutcome::Done);
    assert_eq!(
        bus.merged("book.AGL_ZAR.100ms", start, &service.market_data.publisher, later()).outcome,
        ReplyOutcome::NotHere
    );
    bus.join(TRADES, &mut service, 0, nothing);
    assert_eq!(bus.merged(TRADES, start, &service.market_data.publisher, later()).outcome, ReplyOutcome::NotHere);
}

#[test]
fn merging_books_is_limited_to_a_share_of_the_time() {
    let name = "book.NPN_ZAR.100ms";
    let (service, mut bus, start) = with_three_bids(name);
    // Three levels are merged: 100 us and three times 1 us for each request.
    let outcomes: Vec<ReplyOutcome> = (0..103_000 * 4)
        .step_by(1_000)
        .map(|now_ns| bus.merged(name, start, &service.market_data.publisher, now_ns).outcome)
        .collect();
    let answered: Vec<usize> = (0..outcomes.len()).filter(|at| outcomes[*at] == ReplyOutcome::Done).collect();
    assert_eq!(answered, [0, 103, 206, 309]);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, ReplyOutcome::Done | ReplyOutcome::Full)));
}

fn reply_of(reply: &[u8]) -> (u64, Vec<serde_json::Value>) {
    let reply = Reply::parse(reply).unwrap();
    assert_eq!(reply.outcome, ReplyOutcome::Done);
    (reply.last, reply.batches.iter().map(|text| serde_json::from_slice(text).unwrap()).collect())
}

#[test]
fn resumed_reader_gets_the_messages_after_its_token() {
    let name = "book.NPN_ZAR.100ms";
    let (mut service, mut bus) = (venue(), bus());
    let wish = |token: Option<u64>| vec![(name.to_owned(), token.map(|number| Token { epoch: 4, number, part: 0 }))];
    let new = bus.resume(&wish(None), &mut service, life(), 0);
    let (last, begun) = reply_of(&new.batches[0]);
    assert_eq!((last, begun.len()), (0, 2));
    assert_eq!(
        (&begun[1]["params"]["reason"], &begun[0]["params"]["data"]["type"]),
        (&"new".into(), &"snapshot".into())
    );
    let start = begun[0]["params"]["data"]["change_id"].as_u64().unwrap();
    assert_eq!(begun[1]["params"]["token"], format!("4:{start}"));
    for n in 0..3 {
        bid(&mut service, 1_000 + n * 200, 2_000 + i64::try_from(n).unwrap());
        bus.collect(&service.market_data.publisher);
    }
    let (last, missed) = reply_of(&bus.resume(&wish(Some(start)), &mut service, life(), 0).batches[0]);
    assert_eq!((last, missed.len()), (3, 4));
    // First the published messages themselves, then the position after them.
    let on_bus: Vec<Vec<u8>> = bus.batches_from(1);
    let frames = on_bus.iter().flat_map(|bytes| Batch::parse(bytes).unwrap().messages().collect::<Vec<_>>());
    for (message, reply_of) in frames.zip(&missed) {
        let at = message.frame.iter().position(|byte| *byte == b'{').unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&message.frame[at..]).unwrap(), *reply_of);
    }
    let newest = missed[2]["params"]["data"]["change_id"].as_u64().unwrap();
    let notice = &missed[3]["params"];
    assert_eq!((&notice["resumed"], &notice["token"]), (&true.into(), &format!("4:{newest}").into()));
    let (_, nothing) = reply_of(&bus.resume(&wish(Some(newest)), &mut service, life(), 0).batches[0]);
    assert_eq!((nothing.len(), &nothing[0]["params"]["resumed"]), (1, &true.into()));
    assert!(wishes_of("a -\nb 4:17").is_some_and(|wishes| wishes.len() == 2));
    assert!(wishes_of("trades.any.no such.100ms -").is_some_and(|wishes| wishes[0].0.ends_with("no such.100ms")));
    assert!(["a", "a 4", "a 4:x", "a -\nb"].iter().all(|body| wishes_of(body).is_none()));
}
