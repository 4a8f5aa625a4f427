//! Plays the published vectors under the auditor and checks that it finds no offence in either
//! engine.

use crate::common::vectors;
use pitwire_auditor::{Auditor, Offence};
use pitwire_engine::{Engine, EngineImage};
use pitwire_model::{Event, Seq, SequencedCommand, VenueNanos};
use pitwire_reference_engine::ReferenceEngine;
use pitwire_scenario::{Machine, Witness, play_watched};

#[derive(Default)]
struct Judge {
    auditor: Option<Auditor>,
    last: (Seq, VenueNanos),
    offence: Option<Offence>,
    events: Vec<String>,
}

impl Witness for Judge {
    fn begins(&mut self, image: &EngineImage, seq: Seq, at: VenueNanos) {
        self.last = (seq, at);
        self.note(Auditor::resume(pitwire_auditor_snapshot::audit_snapshot(image, seq, at)), |judge, auditor| {
            judge.auditor = Some(auditor)
        });
    }

    fn saw(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        self.last = (stamped.seq, stamped.at);
        if self.offence.is_some() {
            return;
        }
        self.events = events.iter().map(|event| format!("{event:?}")).collect();
        self.events.insert(0, format!("{stamped:?}"));
        let Some(auditor) = &mut self.auditor else { return };
        self.offence = auditor.observe(stamped, events).err();
    }
}

impl Judge {
    fn note<T>(&mut self, judged: Result<T, Offence>, then: impl FnOnce(&mut Self, T)) {
        match judged {
            Ok(value) => then(self, value),
            Err(offence) => self.offence = Some(offence),
        }
    }

    fn compare(&mut self, image: &EngineImage) {
        let snapshot = pitwire_auditor_snapshot::audit_snapshot(image, self.last.0, self.last.1);
        if let (Some(auditor), None) = (&self.auditor, &self.offence) {
            self.offence = auditor.compare(&snapshot).and_then(|()| auditor.check_balances()).err();
            self.events.clear();
        }
    }
}

fn offences<M: Machine>(fresh: impl Fn() -> M) -> Vec<String> {
    let mut offences = Vec::new();
    for scenario in vectors() {
        let (mut machine, mut judge) = (fresh(), Judge::default());
        let played = play_watched(&mut machine, &scenario, &mut judge);
        judge.compare(&machine.image());
        if let (Ok(_), Some(offence)) = (played, &judge.offence) {
            offences.push(format!("{}: {offence}\n    {}", scenario.name, judge.events.join("\n    ")));
        }
    }
    offences
}

#[test]
fn auditor_finds_no_offence_in_the_engine() {
    let offences = offences(Engine::new);
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}

#[test]
fn auditor_finds_no_offence_in_the_reference_engine() {
    let offences = offences(ReferenceEngine::new);
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}
