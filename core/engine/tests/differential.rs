//! The fast engine against the slow one, a million random commands at a time, with the auditor looking on.
//!
//! Holds       the events of every command are equal, the images are equal, and the auditor finds no offence.
//! To repeat   `TEST_SEED=<seed> cargo test -p pitwire-engine --test differential`.

mod common;

use std::collections::{BTreeSet, VecDeque};

use common::flow::Flow;
use common::world::{Stamper, opening, opening_commands};
use common::{SplitMix64, test_seed};
use pitwire_audit::Auditor;
use pitwire_engine::Engine;
use pitwire_engine::reference::ReferenceEngine;
use pitwire_model::{CancelReason, Event, Reject, Stamped};

/// Each round is a new world with habits of its own.
const ROUNDS: u64 = 400;
const STEPS: u64 = 10_500;
/// How many commands pass between two comparisons of the whole state.
const IMAGE_EVERY: u64 = 61;

/// Which answers were heard, so that a flow that no longer provokes one is noticed.
#[derive(Default)]
struct Heard {
    rejects: BTreeSet<u8>,
    cancels: BTreeSet<u8>,
    trades: u64,
    kept_places: u64,
    accepted: u64,
    /// Commands that traded at more than one price.
    sweeps: u64,
}

impl Heard {
    fn hear(&mut self, events: &[Event]) {
        let mut prices = events.iter().filter_map(|event| match event {
            Event::Trade { price, .. } => Some(*price),
            _ => None,
        });
        let first = prices.next();
        self.sweeps += u64::from(prices.any(|price| Some(price) != first));
        for event in events {
            match event {
                Event::Accepted { .. } => self.accepted += 1,
                Event::Rejected { reason, .. }
                | Event::AmendRefused { reason, .. }
                | Event::CancelRefused { reason, .. }
                | Event::CommandRefused { reason } => _ = self.rejects.insert(*reason as u8),
                Event::Cancelled { reason, .. } => _ = self.cancels.insert(*reason as u8),
                Event::Trade { .. } => self.trades += 1,
                Event::Amended { kept_priority: true, .. } => self.kept_places += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn fast_engine_agrees_with_the_slow_one() {
    let seed = test_seed();
    println!("TEST_SEED={seed}");
    let mut heard = Heard::default();
    let mut seeds = SplitMix64::new(seed);
    let mut commands = 0;
    for round in 0..ROUNDS {
        commands += run_round(seed, round, seeds.next(), &mut heard);
    }
    let Heard { accepted, trades, sweeps, kept_places, .. } = heard;
    println!("{commands} commands: {accepted} accepted, {trades} trades, {sweeps} sweeps, {kept_places} places kept");
    assert!(commands >= 1_000_000);
    assert!(
        trades > 100_000 && sweeps > 10_000 && kept_places > 10_000,
        "TEST_SEED={seed}: a flow in which little happens"
    );
    for reason in Reject::ALL {
        assert!(heard.rejects.contains(&(*reason as u8)), "TEST_SEED={seed}: nothing was refused as {}", reason.name());
    }
    for reason in CancelReason::ALL {
        assert!(heard.cancels.contains(&(reason as u8)), "TEST_SEED={seed}: nothing left as {reason:?}");
    }
}

/// Tells how to repeat a failure, whoever panics: a judge here or the engine itself.
struct Witness {
    seed: u64,
    round: u64,
    /// The last commands, for a case to be shrunk by hand.
    recent: VecDeque<Stamped>,
}

impl Witness {
    const REMEMBERS: usize = 20;

    fn see(&mut self, stamped: &Stamped) {
        if self.recent.len() == Self::REMEMBERS {
            self.recent.pop_front();
        }
        self.recent.push_back(stamped.clone());
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let (true, Some(last)) = (std::thread::panicking(), self.recent.back()) {
            let Stamped { seq, command, .. } = last;
            println!("TEST_SEED={} round={} step={seq} command={command:?}", self.seed, self.round);
            println!("the last commands:");
            for Stamped { seq, command, .. } in &self.recent {
                println!("  {seq}: {command:?}");
            }
        }
    }
}

fn run_round(seed: u64, round: u64, round_seed: u64, heard: &mut Heard) -> u64 {
    let (mut fast, mut slow, mut auditor) = (Engine::new(), ReferenceEngine::new(), Auditor::new());
    let mut flow = Flow::new(round_seed);
    let mut world = VecDeque::from(opening_commands(flow.most_resting, flow.wealth));
    let mut stamper = Stamper::default();
    let mut witness = Witness { seed, round, recent: VecDeque::new() };
    let (mut got, mut want) = (Vec::new(), Vec::new());
    for step in 1..=STEPS {
        let command = world.pop_front().unwrap_or_else(|| flow.command(stamper.seq.next()));
        let stamped = stamper.stamp(command);
        witness.see(&stamped);
        got.clear();
        want.clear();
        fast.apply(&stamped, &mut got);
        slow.apply(&stamped, &mut want);
        assert!(got == want, "fast says {got:#?}\nslow says {want:#?}");
        if let Err(offence) = auditor.observe(&stamped, &got) {
            panic!("the auditor says: {offence}\nevents {got:#?}");
        }
        if step % IMAGE_EVERY == 0 || step == STEPS {
            let (fast, slow) = (fast.image(), slow.image());
            assert!(fast == slow, "fast is {fast:#?}\nslow is {slow:#?}");
            let audited = auditor.compare(&opening(fast, stamper.seq, stamper.at)).and_then(|()| auditor.reckon());
            if let Err(offence) = audited {
                panic!("the auditor says: {offence}");
            }
        }
        heard.hear(&got);
        flow.learn(&got);
    }
    STEPS
}
