//! Connections on delivery threads, beside those of the event loop.

use super::*;
use pitwire_random::SplitMix64;

#[test]
fn attached_reader_gets_nothing_after_the_removal_of_its_channel() {
    let mut world = World::new();
    world.answered(VenueQuestion::Instruments, Reply { epoch: 7, names: vec!["A".into()], ..Reply::default() });
    let trade = "stream/a@trade";
    world.node.connected_delegated(1);
    let opened = world.node.read_url("/ws/a@trade", "").unwrap().unwrap();
    world.node.opened_streams(1, opened, None, world.now, &mut world.sent);
    let reply = here(&world, 0, 0, trade, "");
    world.join(trade, reply);
    // One message is lost. Behind it the channel leaves the bus and returns. All of it arrives at
    // once when the gap is filled.
    let mut lost = BatchWriter::new(7, 1);
    let put = |out: &mut Vec<u8>| {
        write_frame(out, Opcode::Text, b"lost");
        Ok::<(), ()>(())
    };
    lost.push(0, trade, put).unwrap();
    world.next = 2;
    world.remove_channel(trade);
    world.live(&[(trade, 0)]);
    assert_eq!(world.sent.take(), Vec::<String>::new());
    let asks = world.asks();
    assert_eq!(asks, [VenueQuestion::From { epoch: 7, seq: 1 }]);
    let reply = Reply { epoch: 7, last: 3, oldest: 1, batches: vec![lost.finish()], ..Reply::default() };
    world.answered(asks[0].clone(), reply);
    assert_eq!(world.sent.take(), ["1 lost", "1 !1013"]);
}

/// Compares pairs of connections with the same subscriptions, one on the event loop and one on a
/// delivery thread, in random runs: channels leave and return, answers are ahead of the bus or
/// behind it, messages are lost, clients subscribe and unsubscribe.
#[test]
fn attached_reader_gets_the_bytes_of_a_reader_on_the_loop() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..=400, |seed: u64| seed..=seed);
    let (mut answered, mut closed, mut waited) = (0, 0, 0);
    for seed in seeds {
        let mut chance = SplitMix64::new(seed);
        let mut world = World::with_room(2_000 + chance.index(20_000));
        world.answered(
            VenueQuestion::Instruments,
            Reply { epoch: 7, names: vec!["A".into(), "B".into()], ..Reply::default() },
        );
        let streams = ["a@trade", "b@trade", "a@depth@100ms"];
        let channels = streams.map(|name| format!("stream/{name}"));
        // The venue's side: since when each channel is on the bus, and its last message.
        let mut on: [Option<(u64, u64)>; 3] = [None; 3];
        let (mut pairs, mut open) = (0, Vec::new());
        // Connections with later subscriptions: for them the order across channels may differ.
        let mut more = BTreeSet::new();
        let mut asked: Vec<usize> = Vec::new();
        for step in 0..120 {
            match chance.index(10) {
                0 => {
                    let wanted: Vec<&str> = streams.iter().filter(|_| chance.index(2) == 0).copied().collect();
                    let (path, query) = (format!("/ws/{}", wanted.join("/")), "");
                    let (mine, its) = (2 * pairs + 1, 2 * pairs + 2);
                    pairs += 1;
                    world.open(mine, &path);
                    assert!(Node::suits_delivery_thread(&path, query));
                    world.node.connected_delegated(its);
                    let opened = world.node.read_url(&path, query).unwrap().unwrap();
                    world.node.opened_streams(its, opened, None, world.now, &mut world.sent);
                    open.push((mine, its));
                }
                1 if !open.is_empty() => {
                    let (mine, its) = open[chance.index(open.len())];
                    more.insert(its);
                    let method = ["SUBSCRIBE", "UNSUBSCRIBE"][chance.index(2)];
                    let text = format!(r#"{{"method":"{method}","params":["{}"],"id":1}}"#, streams[chance.index(3)]);
                    for id in [mine, its] {
                        world.node.text(id, &text, world.now, &mut world.sent);
                    }
                }
                2 if chance.index(4) == 0 => {
                    let at = chance.index(3);
                    if on[at].take().is_some() {
                        world.remove_channel(&channels[at]);
                    }
                }
                3 | 4 => {
                    if !asked.is_empty() {
                        let at = asked.remove(chance.index(asked.len()));
                        // The answer may be ahead of the bus.
                        let (next, mut late) = (world.next, Vec::new());
                        for _ in 0..chance.index(3) {
                            let other = chance.index(3);
                            if let Some((_, last)) = &mut on[other] {
                                late.push((channels[other].as_str(), *last));
                                *last = next + late.len() as u64 - 1;
                            }
                        }
                        let stands_at = next - 1 + late.len() as u64;
                        let (since, _) = *on[at].get_or_insert((stands_at, 0));
                        let first = ["", "\"first\""][usize::from(at == 2)];
                        let reply = here(&world, stands_at, since, &channels[at], first);
                        world.answered(VenueQuestion::Join { name: channels[at].clone() }, reply);
                        if !late.is_empty() {
                            waited += world.node.subscriptions.connections.unattached.len();
                            world.live(&late);
                        }
                    }
                }
                5 if chance.index(8) == 0 && !open.is_empty() => {
                    let (mine, its) = open.swap_remove(chance.index(open.len()));
                    world.node.disconnected(mine);
                    world.node.disconnected(its);
                    world.sent.1.values_mut().for_each(|seated| _ = seated.remove(&its));
                }
                _ => {
                    let mut batch = Vec::new();
                    for _ in 0..=chance.index(3) {
                        let at = chance.index(3);
                        if let Some((_, last)) = &mut on[at] {
                            batch.push((channels[at].as_str(), *last));
                            *last = world.next + batch.len() as u64 - 1;
                        }
                    }
                    if !batch.is_empty() {
                        world.live(&batch);
                    }
                }
            }
            world.now.steady_ns += 1_000_000_000;
            for ask in world.asks() {
                let VenueQuestion::Join { name } = ask else { continue };
                asked.push(channels.iter().position(|known| *known == name).unwrap());
            }
            open.retain(|(mine, its)| {
                let mut expected = world.sent.take_of(*mine);
                expected.extend(world.read(*mine));
                let mut received = world.sent.take_of(*its);
                if more.contains(its) {
                    received.sort_unstable();
                    expected.sort_unstable();
                }
                assert_eq!(received, expected, "TEST_SEED={seed}, step {step}, connection {its}");
                answered += received.len();
                let is_closed = received.last().is_some_and(|text| text.starts_with('!'));
                closed += usize::from(is_closed);
                if is_closed {
                    world.node.disconnected(*mine);
                    world.node.disconnected(*its);
                }
                !is_closed
            });
        }
        for (mine, its) in open {
            world.node.disconnected(mine);
            world.node.disconnected(its);
        }
        assert!(world.node.subscriptions.channels.has_no_subscribers());
        assert_eq!(
            (
                world.node.subscriptions.channels.attachment_count(),
                world.node.subscriptions.connections.unattached.len()
            ),
            (0, 0)
        );
    }
    assert!(seed.is_some() || (answered > 10_000 && closed > 100 && waited > 100), "{answered} {closed} {waited}");
}

#[test]
fn delegated_client_has_the_same_requests() {
    let mut world = World::new();
    assert!(Node::suits_delivery_thread("/ws/api/v2", "channels=quote.X"));
    assert!(
        ["envelope", "from=7:1", "channels=a&envelope=1"]
            .iter()
            .all(|query| !Node::suits_delivery_thread("/ws/api/v2", query))
    );
    world.node.connected_delegated(1);
    world.node.opened(1, &format!("/ws/api/v2?channels={BOOK},{TRADES}"), world.now, &mut world.sent);
    for (name, first) in [(BOOK, "\"first\""), (TRADES, "")] {
        let reply = here(&world, 0, 0, name, first);
        world.answered(VenueQuestion::Join { name: name.into() }, reply);
    }
    world.live(&[(BOOK, 0), (TRADES, 0)]);
    assert_eq!(world.sent.take(), ["1 \"first\"", "1 \"b1\"", "1 \"t2\""]);
    // With an alias the client has the channel once, as long as one of the names is subscribed.
    let alias = "book.X.agg2";
    world.text(1, "public/subscribe", &format!(r#"{{"channels":["{alias}"]}}"#));
    let reply = here(&world, 2, 0, BOOK, "\"first\"");
    world.answered(VenueQuestion::Join { name: alias.into() }, reply);
    let unsubscribe = |name: &str| format!(r#"{{"channels":["{name}"]}}"#);
    world.text(1, "public/unsubscribe", &unsubscribe(BOOK));
    world.sent.take();
    world.live(&[(BOOK, 1)]);
    assert_eq!(world.sent.take(), ["1 \"b3\""]);
    world.text(1, "public/unsubscribe", &unsubscribe(alias));
    world.sent.take();
    world.live(&[(BOOK, 3), (TRADES, 2)]);
    assert_eq!(world.sent.take(), ["1 \"t5\""]);
    assert!(world.text(1, "public/ticker", "{}").is_some(), "the venue's to answer");
    world.text(1, "public/set_heartbeat", r#"{"interval":10}"#);
    world.text(1, "public/unsubscribe_all", "{}");
    assert_eq!(world.sent.take().len(), 2);
    world.node.beat(world.now.steady_ns + 10_000_000_000, &mut world.sent);
    assert!(world.sent.take()[0].contains("heartbeat"));
    world.live(&[(TRADES, 5)]);
    assert_eq!(world.sent.take(), Vec::<String>::new());
    assert_eq!(
        (world.node.subscriptions.channels.attachment_count(), world.node.subscriptions.connections.clients.len()),
        (0, 1)
    );
}

/// A client of the event loop reads trades: 600 messages of a thousand bytes. A delegated one
/// resumes after the tenth.
fn come_back(room: usize) -> (World, ChannelId) {
    let mut world = World::with_room(room);
    world.open(1, &format!("/?channels={TRADES}"));
    let reply = here(&world, 0, 0, TRADES, "");
    world.join(TRADES, reply);
    (0..600).for_each(|n| world.live_text(TRADES, n, &format!("{:01000}", n + 1)));
    world.node.connected_delegated(2);
    world.node.opened(2, "/ws/api/v2", world.now, &mut world.sent);
    world.sent.take();
    let channel = world.node.subscriptions.channels.history.known(TRADES).unwrap();
    (world, channel)
}

#[test]
fn lagging_attached_reader_gets_bounded_pieces() {
    let (mut world, channel) = come_back(64 << 20);
    world.text(2, "public/subscribe", &format!(r#"{{"channels":["{TRADES}"],"from":"7:10"}}"#));
    let (mut got, mut at, mut pieces) = (Vec::new(), 0, 0);
    let mut most = BEFORE_ATTACH_MAX;
    while at < 600 {
        let mut answered = world.sent.take_of(2);
        at = answered.pop().unwrap().strip_prefix("at ").unwrap().parse().unwrap();
        let numbers: Vec<u64> =
            answered.iter().filter(|text| text.len() == 1_000).map(|text| text.parse().unwrap()).collect();
        assert!(numbers.len() * 1_004 < most + 1_004, "{}", numbers.len());
        got.extend(numbers);
        if at < 600 {
            most = PIECE_BYTES;
            pieces += 1;
            let bytes = world.node.subscriptions.behind(2, channel, at, &mut world.sent);
            assert!((1..most + 1_004).contains(&bytes));
        }
    }
    assert_eq!(got, (11..=600).collect::<Vec<u64>>());
    assert!(pieces > 4, "{pieces}");
    // The reader asks for nothing again. Sequences that the bus used for other channels count as
    // read.
    world.live(&[(QUOTE, 0)]);
    assert_eq!(world.node.subscriptions.behind(2, channel, 600, &mut world.sent), 0);
    assert_eq!(world.sent.take_of(2), ["at 601"]);
}

#[test]
fn attached_reader_behind_the_history_is_closed() {
    let (mut world, channel) = come_back(200_000);
    world.text(2, "public/subscribe", &format!(r#"{{"channels":["{TRADES}"]}}"#));
    world.sent.take();
    assert_eq!(world.node.subscriptions.behind(2, channel, 300, &mut world.sent), 0);
    assert_eq!(world.sent.take_of(2), ["300 Lost"]);
}
