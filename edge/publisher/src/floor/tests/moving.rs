//! Two halls, and readers that are moved from one to the other and back while messages come, at each hall when it likes.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::reserve::Mover;

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

/// One hall with its readers, and what waits for it.
struct Room {
    world: World,
    queue: VecDeque<Post>,
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
}

impl House {
    /// `skew`: fewer than so many posts are acted on in a turn.
    fn new(seed: u64, skew: u64, unseen: usize) -> Self {
        let room = |seed| {
            let mut world = World::new(seed);
            world.floor.streams.clear();
            for (at, lag) in LAGS.iter().enumerate() {
                let name = format!("s{at}");
                let spec = StreamSpec { name, lag: *lag, ring_bytes: 8192, snapshot: false, keep: true };
                world.floor.run(Errand::Create(spec));
            }
            Room { world, queue: VecDeque::new() }
        };
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = vec![TcpStream::connect(door.local_addr().unwrap()).unwrap()];
        let chance = Chance(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        House { rooms: [room(seed), room(seed + 1_000)], chance, is_open: false, moves: 0, skew, unseen, sockets }
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
            room.queue.push_back(Post::Letter(letter.clone()));
        }
    }

    /// A hall's turn: what waits, as far as it likes; then a sweep; then those who are to go.
    fn turn(&mut self, at: usize, is_generous: bool) {
        let room = &mut self.rooms[at];
        let is_late = self.is_open && at == 0 && room.queue.len() < self.unseen;
        let most = if is_generous { u64::MAX } else { self.chance.below(if is_late { 2 } else { self.skew }) };
        for _ in 0..most {
            if room.world.floor.must_sweep() {
                break;
            }
            let Some(post) = room.queue.pop_front() else { break };
            room.act(post);
        }
        room.world.sweep(is_generous);
        let floor = &mut room.world.floor;
        if room.queue.len() > self.unseen || !floor.is_parting() || floor.has_due().1 {
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
            self.rooms[1 - at].queue.push_back(Post::Settle(mover, peer));
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
            if self.rooms[0].world.peers.len() < 40 && self.rooms[0].queue.is_empty() && self.chance.below(2) == 0 {
                self.rooms[0].world.come();
            }
            let (from, count) = (self.chance.below(2) as usize, 1 + self.chance.below(5) as usize);
            if self.is_open && self.chance.below(2) == 0 {
                self.rooms[from].queue.push_back(Post::Part(count));
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

/// Moves, gaps and readers that were closed, after everything that each reader got has been judged.
fn moved(seeds: std::ops::Range<u64>, skew: u64, unseen: usize) -> (usize, usize, usize) {
    let (mut moves, mut gaps, mut closed) = (0, 0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let mut house = House::new(seed, skew, unseen);
        house.run(1_000);
        moves += house.moves;
        for world in house.rooms.iter().map(|room| &room.world) {
            let listed: usize = world.floor.streams.iter().map(|stream| stream.listeners.len()).sum();
            let open = world.peers.iter().filter(|peer| !peer.is_gone);
            let read: usize = open.map(|peer| peer.target.split('?').next().unwrap().split(',').count()).sum();
            assert_eq!(listed, read, "everybody is listed where it is, and nowhere else");
            for peer in world.peers.iter().filter(|peer| !peer.has_left) {
                let (some, is_closed) = judge(peer, &world.told);
                gaps += some;
                closed += usize::from(is_closed);
            }
        }
    }
    (moves, gaps, closed)
}

#[test]
fn who_is_moved_while_messages_come_loses_nothing_and_gets_nothing_twice() {
    let (moves, gaps, closed) = moved(1..41, 12, 0);
    println!("{moves} moves, {gaps} gaps, {closed} closed");
    assert!(moves > 4_000 && gaps > 50 && closed > 50, "{moves} moves, {gaps} gaps, {closed} closed");
}

/// So much that what a reader needs next may not be there any more.
#[test]
fn one_hall_may_be_far_behind_the_other() {
    let (moves, gaps, closed) = moved(100..150, 12, 200);
    println!("{moves} moves, {gaps} gaps, {closed} closed");
    assert!(moves > 1_000 && gaps > 500 && closed > 50, "{moves} moves, {gaps} gaps, {closed} closed");
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
    assert_eq!(slots.map(|slot| floor.may_part(slot)), [true, false, false, true]);
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
