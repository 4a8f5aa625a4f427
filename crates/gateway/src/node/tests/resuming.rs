//! Clients that resume with tokens.

use pitwire_deribit::codec::Token;

use super::*;

fn token(number: u64) -> Option<Token> {
    Some(Token { epoch: 3, number, part: 0 })
}

/// Returns the venue's answer for one channel: its position, and the missed messages.
fn word(world: &World, last: u64, channel: &str, answered: &[&str]) -> Vec<u8> {
    let batches = answered.iter().map(|text| text.as_bytes().to_vec()).collect();
    Reply { batches, ..here(world, last, 0, channel, "\"first\"") }.write()
}

fn answer(world: &World, last: u64, words: Vec<Vec<u8>>) -> Reply {
    Reply { epoch: world.epoch, last, oldest: 1, batches: words, ..Reply::default() }
}

const ASKED: &str =
    r#"{"channels":["book.X.100ms","trades.X.100ms","quote.X"],"resume":{"book.X.100ms":"3:9","trades.X.100ms":null}}"#;

#[test]
fn missed_messages_precede_new_ones_without_a_gap() {
    for on_thread in [false, true] {
        let mut world = World::new();
        if on_thread {
            world.node.connected_delegated(1);
        } else {
            world.open(1, "/");
        }
        world.live(&[("other", 0)]);
        assert!(world.text(1, "public/subscribe", ASKED).is_none());
        let asks = world.asks();
        let wishes = vec![(BOOK.into(), token(9)), (TRADES.into(), None)];
        let resume = VenueQuestion::Resume { number: 1, wishes };
        assert_eq!(asks, [VenueQuestion::Join { name: QUOTE.into() }, resume.clone()]);
        // The answer is at sequence 3: one message is ahead of the bus.
        let words = vec![word(&world, 3, BOOK, &["m1", "m2", "note"]), word(&world, 3, TRADES, &["new"])];
        let reply = answer(&world, 3, words);
        world.answered(resume, reply);
        assert_eq!(world.sent.take(), Vec::<String>::new(), "the third channel is waited for");
        let reply = here(&world, 3, 0, QUOTE, "\"quote\"");
        world.answered(VenueQuestion::Join { name: QUOTE.into() }, reply);
        let answered = world.sent.take();
        assert!(answered[0].contains(r#""result":["book.X.100ms","trades.X.100ms","quote.X"]"#), "{answered:?}");
        assert_eq!(answered[1..], ["1 m1", "1 m2", "1 note", "1 new", "1 \"quote\""]);
        world.live(&[(BOOK, 0), (TRADES, 0)]);
        world.live(&[(BOOK, 2), (TRADES, 3)]);
        let come = if on_thread {
            place_of_first(&world.sent.take()).iter().map(ToString::to_string).collect()
        } else {
            world.read(1)
        };
        assert_eq!(come, ["\"b4\"", "\"t5\""], "{on_thread}");
        // The venue's answer also serves later subscribers of the channel.
        world.open(2, &format!("/?channels={BOOK}"));
        assert_eq!((world.asks(), world.sent.take()), (vec![], vec!["2 \"first\"".to_owned()]));
    }
}

#[test]
fn existing_subscription_is_not_resumed() {
    let mut world = World::new();
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.sent.take();
    let asked = format!(r#"{{"channels":["{BOOK}"],"resume":{{"{BOOK}":"3:9"}}}}"#);
    world.text(1, "public/subscribe", &asked);
    assert_eq!(world.asks(), []);
    let answered = world.sent.take();
    assert!(answered[0].contains(r#""result":["book.X.100ms"]"#), "{answered:?}");
    let notice = r#"{"channel":"book.X.100ms","resumed":false,"by":"nothing","reason":"already_subscribed"}"#;
    assert!(answered.len() == 2 && answered[1].contains(notice), "{answered:?}");
    world.live(&[(BOOK, 0)]);
    assert_eq!(world.read(1), ["\"b1\""], "once");
}

#[test]
fn incomplete_resumption_fails_the_request() {
    let resume = VenueQuestion::Resume { number: 1, wishes: vec![(BOOK.into(), token(9))] };
    let asked = format!(r#"{{"channels":["{BOOK}"],"resume":{{"{BOOK}":"3:9"}}}}"#);
    for trouble in ["away", "another start", "nonsense", "full", "gone"] {
        let mut world = World::new();
        world.open(1, "/");
        world.text(1, "public/subscribe", &asked);
        assert_eq!(world.asks(), std::slice::from_ref(&resume));
        let whole = word(&world, 0, BOOK, &["m1", "note"]);
        let full = Reply { outcome: ReplyOutcome::Full, ..here(&world, 0, 0, "", "") }.write();
        let reply = answer(&world, 0, vec![whole]);
        match trouble {
            "away" => world.node.answered(&resume, Err("away".into()), world.now, &mut world.sent),
            "another start" => {
                let words = [word(&world, 0, BOOK, &["m1"])];
                let other = Reply::parse(&words[0]).map(|reply| Reply { epoch: 8, ..reply }.write());
                world.answered(resume.clone(), Reply { epoch: 8, batches: other.into_iter().collect(), ..reply });
            }
            "nonsense" => world.answered(resume.clone(), Reply { batches: vec![b"x".to_vec()], ..reply }),
            "full" => world.answered(resume.clone(), Reply { batches: vec![full], ..reply }),
            _ => world.node.disconnected(1),
        }
        let answered = world.sent.take();
        if trouble == "gone" {
            let reply = answer(&world, 0, vec![word(&world, 0, BOOK, &["m1", "note"])]);
            world.answered(resume.clone(), reply);
            assert_eq!((answered, world.sent.take()), (vec![], vec![]));
        } else {
            assert!(answered.len() == 1 && answered[0].contains("\"code\":10040"), "{trouble} {answered:?}");
        }
        world.live(&[(BOOK, 0)]);
        assert_eq!(world.read(1), Vec::<String>::new(), "{trouble}");
    }
}

#[test]
fn malformed_tokens_cause_no_question() {
    let mut world = World::new();
    world.open(1, "/");
    world.open(2, "/?envelope");
    let of = |resume: &str| format!(r#"{{"channels":["{BOOK}"],"resume":{resume}}}"#);
    for (id, resume) in
        [(1, r#"{"book.X.100ms":"x"}"#), (1, r#"{"trades.X.100ms":null}"#), (1, "[]"), (2, r#"{"book.X.100ms":null}"#)]
    {
        world.text(id, "public/subscribe", &of(resume));
        let answered = world.sent.take();
        assert!(answered.len() == 1 && answered[0].contains("\"param\":\"resume\""), "{resume} {answered:?}");
    }
    assert_eq!(world.asks(), []);
    // Without tokens nothing is resumed.
    world.text(1, "public/subscribe", &of("{}"));
    assert_eq!(world.asks(), [VenueQuestion::Join { name: BOOK.into() }]);
}

#[test]
fn resumptions_do_not_delay_other_questions() {
    let mut world = World::new();
    let asked = format!(r#"{{"channels":["{BOOK}"],"resume":{{"{BOOK}":"3:9"}}}}"#);
    for id in 1..=6 {
        world.open(id, "/");
        world.text(id, "public/subscribe", &asked);
    }
    let resume = |number| VenueQuestion::Resume { number, wishes: vec![(BOOK.into(), token(9))] };
    assert_eq!(world.asks(), [resume(1), resume(2)]);
    assert!(world.node.due_ns() > 0, "the others wait for an answer");
    world.open(7, &format!("/?channels={TRADES}"));
    assert_eq!(world.asks(), [VenueQuestion::Join { name: TRADES.into() }]);
    // A closed connection is skipped, and any answer lets the next question go.
    world.node.disconnected(3);
    world.node.answered(&resume(1), Err("away".into()), world.now, &mut world.sent);
    assert_eq!((world.node.due_ns(), world.asks()), (0, vec![resume(4)]));
    let reply = answer(&world, 0, vec![word(&world, 0, BOOK, &["m1", "note"])]);
    world.answered(resume(2), reply);
    assert_eq!(world.asks(), [resume(5)]);
}
