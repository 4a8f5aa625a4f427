//! `pitwire verify`: checks a data directory and its replay.

use std::path::PathBuf;

use clap::Args;
use pitwire_auditor::Auditor;
use pitwire_auditor_snapshot::audit_snapshot;
use pitwire_engine::EngineImage;
use pitwire_journal::records::ChainState;
use pitwire_journal::records::image::{encode_state, state_hash};
use pitwire_journal::{RecoveredSnapshot, Recovery};
use pitwire_model::Seq;

use crate::commands::data_directory;
use pitwire_failure::Failure;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;
use pitwire_venue::{Replay, report_progress};

const EXAMPLES: &str = "Examples:
  pitwire verify pitwire-data
      exit code 0 and figures, or exit code 1 and the first offence
  pitwire verify pitwire-data --json
      the figures as one JSON object";

/// Check a data directory: checksums, hash chain, replay, and invariants with an auditor.
///
/// The command changes nothing. It reads from the first command, or from the oldest snapshot if
/// older segments were removed. Stop the venue first: with a running venue the command judges what
/// was written when it began, and reports a segment that the venue removes in the meantime as
/// missing.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The data directory of a venue.
    dir: PathBuf,
    /// Print the figures after this command. The whole directory is checked.
    #[arg(long, value_name = "N")]
    until: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Verify {
    #[cfg(test)]
    pub fn of(dir: PathBuf) -> Self {
        Verify { dir, until: None, json: false }
    }

    /// Replays a data directory and audits every command.
    ///
    /// # Errors
    /// If the directory cannot be read or replayed, or if the auditor finds a broken rule.
    pub fn run(self) -> Result<(), Failure> {
        let progress = CommandProgress::new("verifying");
        let (storage, recovery) = data_directory::open(&self.dir)?;
        let mut replay = Replay::start(&recovery)?;
        let mut auditor = auditor_at(&replay)?;
        let offence = |offence: pitwire_auditor::Offence| {
            Failure::new(format!("offence {offence}"))
                .remedy("keep the directory as it is and report it: the log is whole but the engine broke a rule")
        };
        let mut then = None;
        let replayed = replay.run(
            &recovery,
            &storage,
            |replay, stamped, events| {
                report_progress(
                    &mut |done, total| progress.show(done, total),
                    recovery.base(),
                    replay.last,
                    recovery.last,
                );
                auditor.set_rule_version(replay.rule_version);
                let judged = match replay.is_quarantined(stamped.seq) {
                    true => auditor.observe_quarantined(stamped, events),
                    false => auditor.observe(stamped, events),
                };
                judged.map_err(offence)?;
                if self.until == Some(stamped.seq.0) {
                    then = Some(VerifyFigures::of(replay, &replay.engine.image()));
                }
                Ok(())
            },
            // Snapshots are taken between two commits.
            |replay| match recovery.later_snapshots.iter().find(|snapshot| snapshot.meta.seq == replay.last) {
                Some(snapshot) => check_snapshot(replay, snapshot),
                None => Ok(()),
            },
        )?;
        auditor.check_balances().map_err(offence)?;
        let image = replay.engine.image();
        auditor.compare(&audit_snapshot(&image, replay.last, replay.time)).map_err(offence)?;
        let now = VerifyFigures::of(&replay, &image);
        let figures = match (self.until, then) {
            (None, _) => now,
            (Some(_), Some(then)) => then,
            (Some(until), None) => {
                let kept = format!("commands {} to {} are kept", recovery.base().next(), replay.last);
                return Err(Failure::new(format!("command {until} is not in this journal: {kept}"))
                    .remedy("name one of them with --until"));
            }
        };
        drop(progress);
        self.report(&recovery, &figures, replayed);
        Ok(())
    }

    fn report(&self, recovery: &Recovery, figures: &VerifyFigures, replayed: u64) {
        let counts = &figures.counts;
        let (state, tape, output) =
            (hex::encode(figures.state), hex::encode(figures.tape), hex::encode(figures.output));
        if self.json {
            say(&format!(
                "{{\"ok\":true,\"commands\":{},\"events\":{},\"orders\":{},\"trades\":{},\"replayed\":{replayed},\"from_command\":{},\
                 \"watermark\":{},\"state_hash\":\"{state}\",\"tape_hash\":\"{tape}\",\"output_hash\":\"{output}\"}}",
                counts.commands,
                counts.events,
                counts.orders,
                counts.trades,
                recovery.base(),
                recovery.watermark,
            ));
        } else {
            match &recovery.snapshot {
                Some(snapshot) => {
                    say(&format!("from          the oldest kept snapshot, at command {}", snapshot.meta.seq))
                }
                None => say("from          the first command"),
            }
            say(&format!("commands      {} ({replayed} replayed and audited)", counts.commands));
            say(&format!("events        {}", counts.events));
            say(&format!("orders        {}", counts.orders));
            say(&format!("trades        {}", counts.trades));
            say(&format!("watermark     {}", recovery.watermark));
            say(&format!("state_hash    {state}"));
            say(&format!("tape_hash     {tape}"));
            say(&format!("output_hash   {output}"));
        }
        for damaged in &recovery.damaged_snapshots {
            eprintln!("pitwire: note: {damaged}");
        }
        if let Some(torn) = &recovery.torn {
            eprintln!("pitwire: note: torn tail, to be cut at the next start: {torn}");
        }
    }
}

/// Figures after some command.
struct VerifyFigures {
    counts: ChainState,
    state: [u8; 32],
    tape: [u8; 32],
    output: [u8; 32],
}

impl VerifyFigures {
    fn of(replay: &Replay, image: &EngineImage) -> VerifyFigures {
        let chain = &replay.chain;
        VerifyFigures {
            counts: chain.state().clone(),
            state: state_hash(image),
            tape: chain.tape(),
            output: chain.output(),
        }
    }
}

/// Compares a snapshot with the state of the replay at its command. They must be equal, because a
/// start begins from the snapshot.
fn check_snapshot(replay: &Replay, snapshot: &RecoveredSnapshot) -> Result<(), Failure> {
    let mut payload = Vec::new();
    encode_state(&replay.engine.image(), &replay.views.image(), &mut payload);
    if *replay.chain.state() == snapshot.meta.chain && payload == snapshot.payload {
        return Ok(());
    }
    let text =
        format!("the snapshot at command {} holds something else than a replay up to it gives", snapshot.meta.seq);
    Err(Failure::new(text).remedy("remove that snapshot: the journal before it is whole"))
}

fn auditor_at(replay: &Replay) -> Result<Auditor, Failure> {
    if replay.last == Seq(0) {
        return Ok(Auditor::new());
    }
    Auditor::resume(audit_snapshot(&replay.engine.image(), replay.last, replay.time)).map_err(|offence| {
        Failure::new(format!("the snapshot at command {} contradicts itself: {}", offence.seq, offence.sentence))
            .remedy("remove that snapshot: an older one or the journal's beginning is used instead")
    })
}

#[cfg(all(test, debug_assertions))]
mod quarantine_tests;
