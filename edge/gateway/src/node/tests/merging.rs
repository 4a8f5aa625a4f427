//! Readers of books that the venue merges for them.

use super::*;

fn change(from: u64, to: u64) -> String {
    format!(r#"{{"prev_change_id":{from},"change_id":{to}}}"#)
}

/// A reader without an envelope holds change 12 of the book, which has come to 42 meanwhile, and has been found to be behind.
fn behind() -> World {
    let mut world = World::with_room(400);
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, r#"{"change_id":10}"#);
    world.join(BOOK, reply);
    world.live_text(BOOK, 0, &change(10, 12));
    assert_eq!((world.said.take().len(), world.read(1)), (1, vec![change(10, 12)]));
    (0..30).for_each(|n| world.live_text(BOOK, n + 1, &change(12 + n, 13 + n)));
    assert_eq!(world.read(1), Vec::<String>::new(), "it is not closed");
    world
}

fn ask(change_id: u64) -> Ask {
    Ask::Merged { name: BOOK.into(), change_id }
}

#[test]
fn a_reader_of_a_book_who_falls_behind_gets_one_change_on_its_own_chain() {
    for answer in ["change", "gone", "away", "left", "another start"] {
        let mut world = behind();
        assert_eq!(world.asks(), [ask(12)]);
        assert_eq!((world.read(1), world.asks()), (vec![], vec![]), "it is asked for once");
        // The answer is ahead of the bus by one message.
        let reply = here(&world, 32, 0, "", "");
        let told = change(12, 43);
        match answer {
            "change" => world.told(ask(12), Reply { first: told.clone().into_bytes(), ..reply }),
            "gone" => world.told(ask(12), Reply { outcome: Outcome::NotHere, ..reply }),
            "another start" => world.told(ask(12), Reply { epoch: 8, ..reply }),
            "away" => world.node.told(&ask(12), Err("away".into()), world.now, &mut world.said),
            _ => {
                world.text(1, "public/unsubscribe_all", "{}");
                world.said.take();
                world.told(ask(12), Reply { first: told.clone().into_bytes(), ..reply });
            }
        }
        let expected: &[String] = match answer {
            "change" => &[format!("1 {told}")],
            "left" => &[],
            _ => &["1 !1013".into()],
        };
        assert_eq!(world.said.take(), expected, "{answer}");
        world.live_text(BOOK, 31, &change(42, 43));
        world.live_text(BOOK, 32, &change(43, 44));
        let goes_on = answer == "change";
        assert_eq!(world.read(1), if goes_on { vec![change(43, 44)] } else { vec![] }, "{answer}");
        // Behind once more: from where it is now.
        (0..30).for_each(|n| world.live_text(BOOK, n + 33, &change(44 + n, 45 + n)));
        world.read(1);
        assert_eq!(world.asks().contains(&ask(44)), goes_on, "{answer}");
    }
}

#[test]
fn a_book_that_is_as_it_was_leaves_its_reader_with_what_it_holds() {
    let mut world = behind();
    assert_eq!(world.asks(), [ask(12)]);
    let reply = here(&world, 31, 0, "", "");
    world.told(ask(12), reply);
    assert_eq!((world.read(1), world.asks()), (vec![], vec![]), "there is nothing to tell");
    // What comes next leads on from 42, which it does not hold.
    world.live_text(BOOK, 31, &change(42, 43));
    assert_eq!((world.read(1), world.asks()), (vec![], vec![ask(12)]));
    let reply = here(&world, 32, 0, "", &change(12, 43));
    world.told(ask(12), reply);
    world.live_text(BOOK, 32, &change(43, 44));
    assert_eq!((world.said.take(), world.read(1)), (vec![format!("1 {}", change(12, 43))], vec![change(43, 44)]));
}

#[test]
fn a_thousand_who_hold_the_same_are_one_question_and_a_busy_venue_is_asked_again() {
    let mut world = World::with_room(400);
    (1..=1_000).for_each(|id| world.open(id, &format!("/?channels={BOOK}")));
    let reply = here(&world, 0, 0, BOOK, r#"{"change_id":10}"#);
    world.join(BOOK, reply);
    // The last ten have heard one message more than the others.
    (0..2).for_each(|n| world.live_text(BOOK, n, &change(10 + n, 11 + n)));
    (991..=1_000).for_each(|id| assert_eq!(world.read(id).len(), 2));
    (2..40).for_each(|n| world.live_text(BOOK, n, &change(10 + n, 11 + n)));
    world.said.take();
    (1..=1_000).for_each(|id| assert_eq!(world.read(id), Vec::<String>::new()));
    assert_eq!(world.asks(), [ask(10)], "one question at a time");
    let busy = Reply { outcome: Outcome::Full, ..here(&world, 40, 0, "", "") };
    world.told(ask(10), busy);
    assert_eq!(world.asks(), []);
    assert_eq!(world.node.due_ns(), world.now.steady_ns + 50_000_000);
    world.now.steady_ns = world.node.due_ns();
    assert_eq!(world.asks(), [ask(12)], "they take turns");
    let reply = here(&world, 40, 0, "", &change(12, 50));
    world.told(ask(12), reply);
    assert_eq!((world.said.take().len(), world.asks()), (10, vec![ask(10)]));
    let reply = here(&world, 40, 0, "", &change(10, 50));
    world.told(ask(10), reply);
    assert_eq!((world.said.take().len(), world.asks()), (990, vec![]));
}

fn number(text: &str, key: &str) -> u64 {
    let at = text.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    text[at..].split(['}', ',']).next().unwrap().parse().unwrap()
}

/// A book of one level of four amounts, so that it is often as it was; readers who stall, and a venue that answers late, or
/// that it is busy.
#[test]
fn whatever_a_reader_is_told_changes_what_it_holds() {
    let (mut merged, mut same, mut read) = (0, 0, 0);
    for seed in 1..=200_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap_or(0) % most
        };
        let mut world = World::with_room(300 + below(1_500));
        // The amount at each change_id from 1 on; what each reader holds.
        let mut amounts = vec![(1, 0)];
        let mut held: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let mut asked: Vec<u64> = Vec::new();
        for _ in 0..300 {
            let (newest, amount) = *amounts.last().unwrap();
            match below(8) {
                0 if held.len() < 6 => {
                    let id = held.len() as u64 + 1;
                    world.open(id, &format!("/?channels={BOOK}"));
                    held.insert(id, (0, 0));
                }
                1 | 2 => {
                    let (next, to) = (newest + 1 + below(3) as u64, (amount + 1 + below(3)) % 4);
                    amounts.push((next, to));
                    let text = format!(r#"{{"prev_change_id":{newest},"change_id":{next},"amount":{to}}}"#);
                    world.live_text(BOOK, world.next - 1, &text);
                }
                3 if !asked.is_empty() => {
                    let from = asked.remove(0);
                    let before = amounts.iter().find(|(id, _)| *id == from).expect("a change that there was").1;
                    let reply = here(&world, world.next - 1, 0, "", "");
                    let text = format!(r#"{{"prev_change_id":{from},"change_id":{newest},"amount":{amount}}}"#);
                    let reply = match () {
                        () if below(4) == 0 => Reply { outcome: Outcome::Full, ..reply },
                        () if before == amount => reply,
                        () => Reply { first: text.into_bytes(), ..reply },
                    };
                    merged += u64::from(!reply.first.is_empty());
                    same += u64::from(reply.first.is_empty() && reply.outcome == Outcome::Done);
                    world.told(ask(from), reply);
                }
                4 => world.now.steady_ns += 60_000_000,
                _ if !held.is_empty() => {
                    let id = 1 + below(held.len()) as u64;
                    let told = world.read(id);
                    take_in(&mut held, id, told, &mut read);
                }
                _ => {}
            }
            for ask in world.asks() {
                match ask {
                    Ask::Merged { change_id, .. } => asked.push(change_id),
                    Ask::Join { name } => {
                        let (newest, amount) = *amounts.last().unwrap();
                        let first = format!(r#"{{"change_id":{newest},"amount":{amount}}}"#);
                        let reply = here(&world, world.next - 1, 0, BOOK, &first);
                        world.told(Ask::Join { name }, reply);
                    }
                    _ => {}
                }
            }
            let told = std::mem::take(&mut world.said.0);
            told.into_iter().for_each(|(id, text)| take_in(&mut held, id, vec![text], &mut read));
            assert!(asked.len() <= 1, "one question at a time");
        }
    }
    assert!(merged > 200 && same > 50 && read > 4_000, "{merged} {same} {read}");
}

fn take_in(held: &mut BTreeMap<u64, (u64, usize)>, id: u64, told: Vec<String>, read: &mut u64) {
    let (holds, amount) = held.get_mut(&id).unwrap();
    for text in told {
        assert!(!text.starts_with('!'), "nobody is closed");
        if text.contains("prev_change_id") {
            assert_eq!(number(&text, "prev_change_id"), *holds, "{text}");
            assert_ne!(number(&text, "amount"), *amount as u64, "a change changes something");
            *read += 1;
        }
        *holds = number(&text, "change_id");
        *amount = usize::try_from(number(&text, "amount")).unwrap();
    }
}
