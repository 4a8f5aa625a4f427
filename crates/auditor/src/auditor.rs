//! The public interface of the auditor. It sends each command to the check for its kind.
//!
//! Start at    [`Auditor::observe`], then `check_command`.

use pitwire_model::{Command, Event, Phase, Reject, SequencedCommand};

use crate::amends::check_amend;
use crate::cancels::{check_cancel, check_cancel_all, check_epoch_start};
use crate::days::check_day_end;
use crate::entries::check_entry;
use crate::model::VenueModel;
use crate::operators::check_operator_command;
use crate::reader::EventReader;
use crate::reporting::check_reporting;
use crate::schedule::check_schedule;
use crate::snapshot::AuditSnapshot;
use crate::snapshot_check::{compare_snapshot, load_snapshot};
use crate::violation::{CheckResult, Offence, Promise, fail, wrong_answer};

/// Checks a log of commands and events. See the crate documentation.
#[derive(Debug, Default)]
pub struct Auditor {
    model: VenueModel,
    /// Whether the times of scheduled sessions are checked.
    checks_schedule: bool,
}

impl Auditor {
    /// Commands between two checks that the balances of all accounts add up.
    const BALANCE_CHECK_INTERVAL: u64 = 1 << 16;

    /// Returns an auditor for a log that is read from its first command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an auditor that continues from a snapshot. The snapshot is trusted where it does not
    /// contradict itself.
    ///
    /// # Errors
    /// The contradiction, at the snapshot's command number.
    pub fn resume(snapshot: AuditSnapshot) -> Result<Self, Offence> {
        let seq = snapshot.seq;
        let mut auditor = Auditor::new();
        load_snapshot(&mut auditor.model, snapshot).map_err(|finding| Offence::at(seq, finding))?;
        Ok(auditor)
    }

    /// Also checks the times of scheduled sessions and of expiries. Off by default, because a log
    /// may be written without a schedule.
    #[must_use]
    pub fn with_schedule_checks(mut self) -> Auditor {
        self.checks_schedule = true;
        self
    }

    /// Sets the rule version of the commands that follow. A new auditor uses the newest. Version 1
    /// accepted good-till-cancelled market orders. It also refused post-only before it checked the
    /// display of an order that cannot rest. Version 2 did not read reduce-only. Version
    /// 3 had no smallest display.
    pub fn set_rule_version(&mut self, rule_version: u16) {
        self.model.uses_version_1 = rule_version < 2;
        self.model.ignores_reduce_only = rule_version < 3;
        self.model.ignores_min_display = rule_version < 4;
    }

    /// Checks one command and its events.
    ///
    /// # Errors
    /// The first promise that the events break.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Offence> {
        self.check(stamped, events).map_err(|finding| Offence::at(stamped.seq, finding))
    }

    /// Checks a quarantined command: it may be refused and must do nothing else.
    ///
    /// # Errors
    /// S1 if the events are anything else than one refusal with reason `Quarantined`.
    pub fn observe_quarantined(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Offence> {
        let is_refusal = match events {
            [Event::Rejected { reason, .. }]
            | [Event::AmendRefused { reason, .. }]
            | [Event::CancelRefused { reason, .. }]
            | [Event::CommandRefused { reason }] => *reason == Reject::Quarantined,
            _ => false,
        };
        (self.model.seq, self.model.at) = (stamped.seq, stamped.at);
        if is_refusal {
            return Ok(());
        }
        let sentence = "a quarantined command had an effect".into();
        Err(Offence { seq: stamped.seq, promise: Promise::S1, sentence })
    }

    /// Checks that each currency, summed over all accounts and the entry values of perpetual
    /// positions, equals its deposits. [`Self::observe`] repeats this check every 65,536 commands.
    ///
    /// # Errors
    /// M4 for the first currency whose sum differs.
    pub fn check_balances(&self) -> Result<(), Offence> {
        self.model.ledger.check_totals().map_err(|finding| Offence::at(self.model.seq, finding))
    }

    /// Compares a snapshot with all observed commands. The snapshot may leave out flat
    /// positions.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, snapshot: &AuditSnapshot) -> Result<(), Offence> {
        compare_snapshot(&self.model, snapshot).map_err(|finding| Offence::at(snapshot.seq, finding))
    }

    /// Returns the number of live orders.
    pub fn live_orders(&self) -> usize {
        self.model.orders.len()
    }

    fn check(&mut self, stamped: &SequencedCommand, events: &[Event]) -> CheckResult {
        let model = &mut self.model;
        if stamped.seq != model.seq.next() {
            fail!(M9, "command {} follows command {}", stamped.seq, model.seq);
        }
        if stamped.at < model.at {
            fail!(M9, "venue time went back from {} to {}", model.at, stamped.at);
        }
        if self.checks_schedule {
            check_schedule(model, stamped)?;
        }
        (model.seq, model.at) = (stamped.seq, stamped.at);
        let reader = &mut EventReader::new(events);
        check_command(model, reader, stamped, events)
            .map_err(|finding| reader.prefer_level_violation(model, finding))?;
        if stamped.seq.0.is_multiple_of(Self::BALANCE_CHECK_INTERVAL) {
            model.ledger.check_totals()?;
        }
        Ok(())
    }
}

fn check_command(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    stamped: &SequencedCommand,
    events: &[Event],
) -> CheckResult {
    match &stamped.command {
        Command::Enter(new) => check_entry(model, reader, new),
        Command::Amend(amend) => check_amend(model, reader, amend),
        Command::Cancel { account, order } => check_cancel(model, reader, *account, *order),
        Command::CancelAll { account, which, reason } => check_cancel_all(model, reader, *account, which, *reason),
        Command::EndDay => check_day_end(model, reader),
        Command::StartEpoch { epoch } => check_epoch_start(model, reader, *epoch),
        Command::CloseWindow
        | Command::SampleIndex
        | Command::AddCurrency(_)
        | Command::AddInstrument(_)
        | Command::AddAccount(_)
        | Command::Deposit { .. } => check_definition(model, &stamped.command, events),
        Command::SetReporting { .. } | Command::ReportTrade(_) | Command::AnswerReport { .. } => {
            check_reporting(model, reader, stamped.seq, &stamped.command)
        }
        Command::SpendSignature(_) => reader.expect_end(model),
        other => check_operator_command(model, reader, other, events),
    }
}

/// Checks definitions, deposits, index samples and window boundaries of the merged channels. The
/// venue answers each with events that repeat the command, or refuses it.
fn check_definition(model: &mut VenueModel, command: &Command, events: &[Event]) -> CheckResult {
    match (command, events) {
        (Command::CloseWindow, [Event::WindowClosed]) => Ok(()),
        (Command::SampleIndex, samples) => check_index_samples(model, samples),
        (Command::AddCurrency(new), [Event::CurrencyAdded(added)]) if new == added => model.add_currency(added),
        (Command::AddInstrument(new), [Event::InstrumentAdded(added)]) if new == added => {
            model.add_market(added, Phase::Closed)
        }
        (Command::AddAccount(new), [Event::AccountAdded(added)]) if new == added => model.add_account(added),
        (
            Command::Deposit { account, currency, units },
            [Event::Deposited { account: to, currency: of, units: moved }],
        ) if (account, currency, units) == (to, of, moved) => model.ledger.deposit(*account, *currency, *units),
        (Command::CloseWindow, _) => Err(wrong_answer(command, events)),
        (_, [Event::CommandRefused { .. }]) => Ok(()),
        _ => Err(wrong_answer(command, events)),
    }
}

fn check_index_samples(model: &VenueModel, events: &[Event]) -> CheckResult {
    let perpetuals = model.markets.iter().filter(|market| !market.spec.is_spot()).map(|market| market.spec.id);
    let mut sampled = Vec::new();
    for event in events {
        let Event::IndexSampled { instrument, index, mark } = event else {
            return Err(wrong_answer(&Command::SampleIndex, events));
        };
        if index.0 < 1 || (mark.0 - index.0).abs() > index.0 / 200 {
            fail!(M10, "instrument {instrument} has mark price {mark}, more than 0.5 % from its index {index}");
        }
        sampled.push(*instrument);
    }
    if !perpetuals.eq(sampled.iter().copied()) {
        fail!(S1, "the index must be sampled for each perpetual once and in order");
    }
    Ok(())
}
