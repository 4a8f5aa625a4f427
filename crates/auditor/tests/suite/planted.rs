//! Correct runs with planted faults, which the auditor must find.

use pitwire_auditor::{Auditor, Offence};

/// A fault, how it is planted, and the expected words of the finding.
pub type PlantedFault<R> = (&'static str, fn(&mut R), &'static str);

pub fn expect_offences<R>(
    run: impl Fn() -> R,
    audit: impl Fn(&R) -> Result<Auditor, Offence>,
    faults: &[PlantedFault<R>],
) {
    let mut missed = Vec::new();
    for (what, tamper, sentence) in faults {
        let mut tampered = run();
        tamper(&mut tampered);
        match audit(&tampered) {
            Ok(_) => missed.push(format!("{what}: the auditor saw nothing")),
            Err(offence) if offence.sentence.contains(sentence) => {}
            Err(offence) => missed.push(format!("{what}: {offence}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
