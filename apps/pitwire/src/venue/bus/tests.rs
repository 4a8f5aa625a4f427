//! Channels that come on the bus, leave it and come back.

use pitwire_bus::Batch;
use pitwire_model::{Seq, VenueNanos};
use pitwire_sequencer::{Sequencer, Timetable, Unscheduled};

use super::*;
use crate::venue::ledger::Ledger;
use crate::venue::preset;

const TRADES: &str = "trades.NPN_ZAR.100ms";
const STREAM: &str = "stream/npnzar@trade";

fn venue() -> Core {
    let sequencer = Sequencer::resume(pitwire_engine::Engine::new(), Ledger::memory(), Seq(0), VenueNanos(0));
    let timetable = Timetable::starting(Box::new(Unscheduled), sequencer.engine(), VenueNanos(0), VenueNanos(0));
    let mut core = Core::new(sequencer, pitwire_views::Views::new(), pitwire_log::OutputChain::new(), timetable);
    for command in preset::demo().commands().unwrap() {
        core.submit_at(VenueNanos(1), command).unwrap();
    }
    core.commit().unwrap();
    core
}

/// Without NATS, which need not be there.
fn bus() -> Bus {
    let (url, subject) = ("nats://127.0.0.1:1".to_owned(), "t".to_owned());
    let key = Key::new([7; 32]);
    Bus::open(Publication { url, subject, epoch: 9, about: String::new(), key }).unwrap()
}

/// What has been said since a sequence: its number, the channel, and whether it leaves.
fn said(bus: &Bus, from: u64) -> Vec<(u64, String, bool)> {
    let batches = bus.batches_from(from);
    let batches = batches.iter().map(|bytes| Batch::parse(bytes).unwrap());
    let messages = batches.flat_map(|batch| batch.messages().collect::<Vec<_>>());
    messages.map(|message| (message.seq, message.channel.to_owned(), message.is_farewell())).collect()
}

#[test]
fn a_channel_says_that_it_leaves_and_comes_back_behind_that() {
    let (mut core, mut bus, mut notices) = (venue(), bus(), Notices::default());
    let first = bus.join(TRADES, &mut core, 0);
    bus.join(STREAM, &mut core, 0);
    assert_eq!((first.outcome, first.since, first.last), (Outcome::Done, 0, 0));
    bus.keep(STREAM, LEASE_NS / 2);
    bus.attend(&mut core, LEASE_NS - 1, &mut notices);
    assert_eq!(said(&bus, 1), []);
    bus.attend(&mut core, LEASE_NS + SWEEP_NS, &mut notices);
    assert_eq!(said(&bus, 1), [(1, TRADES.into(), true)], "the other is still wanted");
    // Whoever had heard everything up to here, and did not see it leave, must not take itself for one who has.
    let again = bus.join(TRADES, &mut core, LEASE_NS + SWEEP_NS);
    assert_eq!((again.since, again.last), (1, 1));
    bus.attend(&mut core, 4 * LEASE_NS, &mut notices);
    let mut left = said(&bus, 2);
    left.sort_unstable_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(
        left.iter().map(|(_, name, leaves)| (name.as_str(), *leaves)).collect::<Vec<_>>(),
        [(STREAM, true), (TRADES, true)]
    );
}
