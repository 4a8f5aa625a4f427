//! Two halls, and readers that are moved from one to the other and back while messages come, at each hall when it likes.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::inbox::{Kept, Shed};
use crate::reserve::{Mover, Place};

#[derive(Clone)]
struct Letter {
    stream: usize,
    key: usize,
    seq: u64,
    text: String,
}

enum Post {
    Letter(Letter),
    /// So many are to go to the other hall.
    Part(usize),
    Settle(Mover, Peer),
}

/// One hall with its readers, and what waits for it: what it has taken, and what it will take next.
struct Room {
    world: World,
    queue: VecDeque<Post>,
    waiting: VecDeque<Post>,
    /// What did not fit, of each stream, behind what has been taken, and behind what waits.
    taken_shed: BTreeMap<usize, Shed>,
    shed: BTreeMap<usize, Shed>,
    /// So many messages may wait.
    most: usize,
}

struct House {
    rooms: [Room; 2],
    chance: Chance,
    /// The second gets messages.
    is_open: bool,
    moves: usize,
    skew: u64,
    /// So many posts may have come since a hall last looked, when it lets readers go; for the first they do.
    unseen: usize,
    sockets: Vec<TcpStream>,
    sheds: usize,
}

impl House {
    /// `skew`: fewer than so many posts are acted on in a turn; `most`: may wait for the second hall.
    fn new(seed: u64, skew: u64, unseen: usize, most: usize) -> Self {
        let room = |seed, most| {
            let mut world = World::new(seed);
            (world.floor.limits.deflate, world.is_offered) = (true, true);
            world.floor.streams.clear();
            for (at, lag) in LAGS.iter().enumerate() {
                let name = format!("s{at}");
                let spec = StreamSpec { name, lag: *lag, ring_bytes: 8192, snapshot: false, keep: true };
                world.floor.run(Errand::Create(spec));
            }
            let (queue, waiting) = (VecDeque::new(), VecDeque::new());
            Room { world, queue, waiting, taken_shed: BTreeMap::new(), shed: BTreeMap::new(), most }
        };
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = vec![TcpStream::connect(door.local_addr().unwrap()).unwrap()];
        let chance = Chance(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        let rooms = [room(seed, usize::MAX), room(seed + 1_000, most)];
        House { rooms, chance, is_open: false, moves: 0, skew, unseen, sockets, sheds: 0 }
    }

    fn publish(&mut self) {
        let (stream, key) = (self.chance.below(3) as usize, self.chance.below(5) as usize);
        let pad = "x".repeat(self.chance.below(300) as usize);
        let all = self.rooms[0].world.all + 1;
        let mut seq = 0;
        for room in &mut self.rooms {
            room.world.told[stream].push(key);
            room.world.all = all;
            seq = room.world.told[stream].len() as u64;
        }
        let text = format!(r#"{{"s":{stream},"n":{seq},"g":{all},"k":"{}","p":"{pad}"}}"#, KEYS[key]);
        let letter = Letter { stream, key, seq, text };
        for room in self.rooms.iter_mut().take(1 + usize::from(self.is_open)) {
            self.sheds += usize::from(room.put(letter.clone()));
        }
    }

    /// A hall's turn: what waits, as far as it likes; then a sweep; then those who are to go.
    fn turn(&mut self, at: usize, is_generous: bool) {
        let mut shedding = self.rooms.iter().map(|room| !room.shed.is_empty());
        let is_other_shedding = shedding.nth(1 - at).unwrap_or(false);
        let room = &mut self.rooms[at];
        let is_late = self.is_open && at == 0 && room.len() < self.unseen;
        let most = match room.most {
            _ if is_generous => u64::MAX,
            usize::MAX => self.chance.below(if is_late { 2 } else { self.skew }),
            // Much at a time, and seldom.
            _ => 4 * self.skew * u64::from(self.chance.below(6) == 0),
        };
        for _ in 0..most {
            if room.world.floor.must_sweep() {
                break;
            }
            let Some(post) = room.next() else { break };
            room.act(post);
        }
        room.world.sweep(is_generous);
        let floor = &mut room.world.floor;
        let is_behind = room.queue.len() + room.waiting.len() > self.unseen || !room.taken_shed.is_empty();
        if is_behind || is_other_shedding || !floor.is_parting() || floor.has_due().1 {
            return;
        }
        let mut slots = Vec::new();
        floor.take_parting(3, &mut slots);
        for slot in slots {
            let peers = &mut self.rooms[at].world.peers;
            let peer = peers.iter().position(|peer| peer.slot == slot && !peer.is_gone).unwrap();
            let peer = peers.swap_remove(peer);
            let socket = self.sockets[0].try_clone().unwrap();
            let mover = self.rooms[at].world.floor.part_with(slot, socket, None).unwrap();
            self.rooms[1 - at].waiting.push_back(Post::Settle(mover, peer));
            self.moves += 1;
        }
    }

    fn run(&mut self, turns: usize) {
        for turn in 0..turns {
            if turn == turns / 6 {
                // From the same moment on in both: the second gets messages, and the first may send readers.
                self.is_open = true;
            }
            for room in &mut self.rooms {
                room.world.now_ns = 3_000_000 * turn as u64;
                room.world.floor.set_now(room.world.now_ns);
            }
            (0..self.chance.below(6)).for_each(|_| self.publish());
            if self.rooms[0].world.peers.len() < 40 && self.rooms[0].len() == 0 && self.chance.below(2) == 0 {
                self.rooms[0].world.come();
            }
            let (from, count) = (self.chance.below(2) as usize, 1 + self.chance.below(5) as usize);
            if self.is_open && self.chance.below(2) == 0 {
                self.rooms[from].waiting.push_back(Post::Part(count));
            }
            for at in 0..2 {
                let world = &mut self.rooms[at].world;
                if !world.peers.is_empty() && self.chance.below(4) == 0 {
                    world.ask();
                }
                if world.peers.len() > 10 && self.chance.below(40) == 0 {
                    world.go();
                }
                world.unblock(40);
                self.turn(at, false);
            }
        }
        for _ in 0..200 {
            for at in 0..2 {
                self.rooms[at].world.unblock(1);
                self.turn(at, true);
            }
        }
    }
}

impl Room {
    fn len(&self) -> usize {
        self.queue.len() + self.waiting.len() + self.taken_shed.len() + self.shed.len()
    }

    /// As the inbox does it: what does not fit is shed, with the newest of each key kept. Says whether it was shed.
    fn put(&mut self, letter: Letter) -> bool {
        let Letter { stream, key, seq, ref text } = letter;
        if self.shed.is_empty() && self.waiting.len() < self.most {
            self.waiting.push_back(Post::Letter(letter));
            return false;
        }
        let shed = self.shed.entry(stream).or_default();
        if shed.messages == 0 {
            shed.from = seq;
        }
        (shed.to, shed.messages) = (seq, shed.messages + 1);
        shed.kept.retain(|_, kept| *kept.key != *KEYS[key].as_bytes());
        let kept = Kept { key: KEYS[key].as_bytes().into(), is_binary: false, payload: text.as_bytes().to_vec() };
        shed.kept.insert(seq, kept);
        true
    }

    /// What comes next; behind all that was taken, what did not fit is declared.
    fn next(&mut self) -> Option<Post> {
        if self.queue.is_empty() {
            for (stream, shed) in std::mem::take(&mut self.taken_shed) {
                self.world.floor.declare_shed(StreamId(stream as u32), &shed);
            }
            self.queue = std::mem::take(&mut self.waiting);
            self.taken_shed = std::mem::take(&mut self.shed);
        }
        self.queue.pop_front()
    }

    fn act(&mut self, post: Post) {
        let floor = &mut self.world.floor;
        match post {
            Post::Letter(Letter { stream, key, seq, text }) => {
                floor.append(StreamId(stream as u32), KEYS[key].as_bytes(), seq, false, text.as_bytes());
            }
            Post::Part(count) => floor.run(Errand::Part { to: 1, count }),
            Post::Settle(mover, mut peer) => {
                let tag = mover.tag;
                floor.run(Errand::Settle(vec![mover]));
                let mut arrivals = Vec::new();
                floor.take_arrivals(&mut arrivals);
                peer.slot = floor.slot_of(tag).unwrap();
                assert_eq!(arrivals.iter().map(|(slot, _)| *slot).collect::<Vec<u32>>(), [peer.slot]);
                self.world.peers.push(peer);
            }
        }
    }
}

/// What there was of everything, after everything that each reader got has been judged.
#[derive(Debug, Default)]
struct Seen {
    moves: usize,
    gaps: usize,
    closed: usize,
    /// Messages that did not fit.
    sheds: usize,
}

fn moved(seeds: std::ops::Range<u64>, skew: u64, unseen: usize, most: usize) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        println!("seed {seed}");
        let mut house = House::new(seed, skew, unseen, most);
        house.run(1_000);
        seen.moves += house.moves;
        seen.sheds += house.sheds;
        for world in house.rooms.iter().map(|room| &room.world) {
            let listed: usize = world.floor.streams.iter().map(|stream| stream.listeners.len()).sum();
            let open = world.peers.iter().filter(|peer| !peer.is_gone);
            let read: usize = open.map(|peer| peer.target.split('?').next().unwrap().split(',').count()).sum();
            assert_eq!(listed, read, "everybody is listed where it is, and nowhere else");
            for peer in world.peers.iter().filter(|peer| !peer.has_left) {
                let (some, is_closed) = judge(peer, &world.told, house.sheds > 0);
                seen.gaps += some;
                seen.closed += usize::from(is_closed);
            }
        }
    }
    println!("{seen:?}");
    seen
}

#[test]
fn who_is_moved_while_messages_come_loses_nothing_and_gets_nothing_twice() {
    let seen = moved(1..25, 12, 0, usize::MAX);
    assert!(seen.moves > 4_000 && seen.gaps > 50 && seen.closed > 50 && seen.sheds == 0, "{seen:?}");
}

/// So much that what a reader needs next may not be there any more.
#[test]
fn one_hall_may_be_far_behind_the_other() {
    let seen = moved(100..130, 12, 200, usize::MAX);
    assert!(seen.moves > 1_000 && seen.gaps > 500 && seen.closed > 50, "{seen:?}");
}

/// So readers come from where nothing was shed, and is read later, into the middle of what was.
#[test]
fn what_a_hall_has_shed_is_declared_to_those_who_come_from_another_too() {
    let seen = moved(200..240, 12, 12, 5);
    assert!(seen.moves > 1_000 && seen.gaps > 500 && seen.sheds > 2_000, "{seen:?}");
}

#[test]
fn who_goes_on_within_what_was_shed_is_told_of_the_rest_of_it() {
    let inbox = crate::inbox::Inbox::new(64).unwrap();
    let mut world = World::new(1);
    let floor = &mut world.floor;
    for stream in [0, 1] {
        put(&inbox, StreamId(stream), 1, "aaaaaaaaaaaaaaaaaaa");
        put(&inbox, StreamId(stream), 20, "abcabcabc");
        assert!(!floor.take(&inbox));
    }
    // Shed is 20 to 28; of that 26 to 28 are kept. Who has 22 lacks 23 to 25 for good, who has 25 nothing.
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settle = |stream, seq| {
        let socket = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let tag = Tag(1_000 + seq);
        let place = Place { read: vec![(StreamId(stream), seq)], ..Place::default() };
        floor.run(Errand::Settle(vec![Mover { socket, tls: None, tag, from: None, place }]));
        let slot = floor.slot_of(tag).unwrap();
        let got = take_all(floor, slot);
        floor.leave(slot);
        got
    };
    assert_eq!(settle(0, 19), r#"{"type":"gap","from":20,"to":28}|a26|b27|c28"#);
    assert_eq!(settle(0, 20), r#"{"type":"gap","from":21,"to":28}|a26|b27|c28"#);
    assert_eq!(settle(0, 24), r#"{"type":"gap","from":25,"to":28}|a26|b27|c28"#);
    assert_eq!(settle(0, 25), "a26|b27|c28");
    assert_eq!(settle(0, 28), "");
    let closed = settle(1, 22);
    assert!(closed.ends_with("the publisher was too busy; connect again"), "{closed}");
    // The same for whoever comes back with a number that another hall has given it.
    let back = come(floor, "/0?from=1:22");
    assert_eq!(take_all(floor, back), r#"{"type":"gap","from":23,"to":28}|a26|b27|c28"#);
    // Once all of it has been overwritten, nothing is remembered of it.
    (29..2_000).for_each(|seq| floor.append(StreamId(0), b"k", seq, false, b"x"));
    floor.due(&mut Vec::new(), Sweep::First);
    put(&inbox, StreamId(0), 2_000, "aaaaaaaaaaaaaaaaaaa");
    put(&inbox, StreamId(0), 2_019, "aaaaaaaaa");
    assert!(!floor.take(&inbox));
    assert_eq!(floor.streams[0].missing_behind(22), None);
    assert_eq!(floor.streams[0].missing_behind(2_020), Some((2_021, 2_027)));
}

fn drain(floor: &mut Floor, slot: u32) {
    while floor.prepare(slot) == Next::Send {
        let bytes = floor.gather(slot).bytes();
        floor.sent(slot, bytes);
    }
}

#[test]
fn only_who_has_everything_and_owes_nothing_may_go() {
    let mut world = World::new(1);
    let floor = &mut world.floor;
    let slots = ["/0", "/0?symbols=b", "/0?envelope=1", "/0,2"].map(|target| come(floor, target));
    assert!(!floor.may_part(slots[0]), "its handshake has not been answered");
    slots.iter().for_each(|slot| drain(floor, *slot));
    assert_eq!(slots.map(|slot| floor.may_part(slot)), [true; 4]);
    floor.append(StreamId(0), b"k", 1, false, b"one");
    assert!(!floor.may_part(slots[0]), "there is something for it");
    floor.prepare(slots[0]);
    floor.sent(slots[0], 2);
    assert!(!floor.may_part(slots[0]), "half of a message has been sent");
    drain(floor, slots[0]);
    assert!(floor.may_part(slots[0]));
    let said = masked(1, b"echo-1");
    floor.received(slots[0], &said[..4]);
    assert!(!floor.may_part(slots[0]), "half of a message has come");
    floor.received(slots[0], &said[4..]);
    assert!(!floor.may_part(slots[0]), "it is owed an answer");
    drain(floor, slots[0]);
    assert!(floor.may_part(slots[0]));
    floor.blocked(slots[3]);
    assert!(!floor.may_part(slots[3]), "its socket takes nothing");
    assert!(!floor.may_part(99));
}
