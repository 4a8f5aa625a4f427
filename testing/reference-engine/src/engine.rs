//! Sends each command to the function that applies it.

use pitwire_engine::EngineImage;
use pitwire_model::{Command, Event, InstrumentId, SequencedCommand, Ticks};

use crate::amending::amend_order;
use crate::definitions::{add_account, add_currency, add_instrument, deposit, sample_index};
use crate::entering::enter_order;
use crate::image::image;
use crate::leaving::{cancel_order, cancel_orders, end_day, start_epoch};
use crate::operator::run_operator_command;
use crate::reporting::run_report_command;
use crate::session::run_session_command;
use crate::state::VenueState;

/// A slow matching engine that applies the same commands as `pitwire_engine::Engine`.
#[derive(Debug, Default)]
pub struct ReferenceEngine {
    venue: VenueState,
}

impl ReferenceEngine {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reference prices of an instrument as if it had traded before.
    pub fn prime(
        &mut self,
        instrument: InstrumentId,
        last: Option<Ticks>,
        static_reference: Option<Ticks>,
        dynamic: Option<Ticks>,
        previous_close: Option<Ticks>,
    ) {
        let market = &mut self.venue.markets[instrument.0 as usize];
        (market.prices.last, market.prices.static_reference) = (last, static_reference);
        (market.prices.dynamic, market.closing.previous) = (dynamic.or(last), previous_close);
    }

    /// Returns the state in the form of the engine's image.
    pub fn image(&self) -> EngineImage {
        image(&self.venue)
    }

    /// Applies one command and appends its events to `out`.
    pub fn apply(&mut self, stamped: &SequencedCommand, out: &mut Vec<Event>) {
        let venue = &mut self.venue;
        venue.now = stamped.at;
        let refused = match &stamped.command {
            Command::Enter(order) => {
                enter_order(venue, order, out);
                Ok(())
            }
            Command::Amend(amend) => {
                amend_order(venue, amend, out);
                Ok(())
            }
            Command::Cancel { account, order } => {
                cancel_order(venue, *account, *order, out);
                Ok(())
            }
            Command::CancelAll { account, which, reason } => {
                cancel_orders(venue, *account, which, *reason, out);
                Ok(())
            }
            Command::CloseWindow => {
                out.push(Event::WindowClosed);
                Ok(())
            }
            Command::SampleIndex => {
                sample_index(venue, out);
                Ok(())
            }
            Command::EndDay => {
                end_day(venue, out);
                Ok(())
            }
            Command::StartEpoch { epoch } => {
                start_epoch(venue, *epoch, out);
                Ok(())
            }
            Command::AddCurrency(currency) => add_currency(venue, currency, out),
            Command::AddInstrument(spec) => add_instrument(venue, spec, out),
            Command::AddAccount(spec) => add_account(venue, spec, out),
            Command::Deposit { account, currency, units } => deposit(venue, *account, *currency, *units, out),
            Command::SetPhase { .. }
            | Command::ChangeSession { .. }
            | Command::ExtendSession { .. }
            | Command::SetRemaining { .. }
            | Command::BeginDay { .. }
            | Command::PassTime
            | Command::FilterHidden { .. }
            | Command::RunBatch { .. }
            | Command::SetTradingRules { .. }
            | Command::SetClosingPrice { .. } => run_session_command(venue, &stamped.command, out),
            Command::SetReporting { .. } | Command::ReportTrade(_) | Command::AnswerReport { .. } => {
                run_report_command(venue, stamped.seq, &stamped.command, out)
            }
            Command::SpendSignature(_) => Ok(()),
            other => run_operator_command(venue, other, out),
        };
        if let Err(reason) = refused {
            out.push(Event::CommandRefused { reason });
        }
    }
}
