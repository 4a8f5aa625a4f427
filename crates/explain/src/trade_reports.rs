//! Explains off-book trades (rulebook 23): the result of a report, and why a report or its answer
//! was refused.
//!
//! Holds       notes about a report go to its two parties. Notes about a refused answer go to the
//!             account that answered.

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Lots, Reject, ReportEnd, Seq, SequencedCommand, SessionReason, Side,
    Ticks, TradeReport,
};
use pitwire_scenario::Contracts;

use crate::note::Note;
use crate::text_style::counted;
use crate::venue_view::{InstrumentView, VenueView};
use crate::viewer::Viewer;

impl VenueView {
    pub fn follow_reporting(&mut self, event: &Event) {
        match event {
            Event::ReportingChanged { instrument, open, ends, .. } => {
                if let Some(market) = self.market_mut(*instrument) {
                    (market.reporting, market.reporting_ends) = (*open, *ends);
                }
            }
            Event::TradeReported { report, trade } => _ = self.reports.insert(*report, (**trade).clone()),
            Event::ReportEnded { report, .. } => _ = self.reports.remove(report),
            Event::OffBookTrade(trade) => _ = self.reports.remove(&trade.report),
            _ => {}
        }
    }

    fn name_of(&self, account: AccountId) -> String {
        self.names.get(&account).cloned().unwrap_or_else(|| format!("account {account}"))
    }

    /// Returns the end of the reporting hours as text.
    fn until(&self, instrument: InstrumentId) -> String {
        let ends = self.market(instrument).and_then(|market| market.reporting_ends);
        ends.map_or("they end".to_owned(), |ends| self.time(ends))
    }

    fn waiting_of(&self, account: AccountId, instrument: InstrumentId) -> usize {
        self.reports.values().filter(|report| report.account == account && report.instrument == instrument).count()
    }
}

/// Adds the terms of a report to a note.
fn terms(note: Note, venue: &VenueView, report: &TradeReport) -> Note {
    let [buyer, seller] = report.parties().map(|party| venue.name_of(party));
    note.with("price", report.price.0).with("lots", report.lots.0).with("buyer", buyer).with("seller", seller)
}

/// Returns the report that a command makes or answers.
pub(crate) fn report_of(stamped: &SequencedCommand) -> Option<Seq> {
    match stamped.command {
        Command::ReportTrade(_) => Some(stamped.seq),
        Command::AnswerReport { report, .. } => Some(report),
        _ => None,
    }
}

/// Explains an event about an accepted report. Returns the report's number, its instrument and the
/// note.
pub(crate) fn report_note(
    venue: &VenueView,
    seq: Seq,
    event: &Event,
    events: &[Event],
) -> Option<(Seq, InstrumentId, Note)> {
    match event {
        Event::TradeReported { report, trade } => {
            let (who, other) = (venue.name_of(trade.account), venue.name_of(trade.counterparty));
            let did = if trade.side == Side::Buy { "bought from" } else { "sold to" };
            let until = venue.until(trade.instrument);
            let text = format!(
                "{who} {did} {other} {} at {}: nothing moves until {other} confirms it, within the hours of trade \
                 reporting (until {until})",
                venue.amount(trade.instrument, trade.lots),
                venue.price(trade.instrument, trade.price)
            );
            let note = Note::new(seq, venue, "reported", "rulebook: 23.2", text).with("report", report.0);
            Some((*report, trade.instrument, terms(note, venue, trade)))
        }
        Event::ReportEnded { report, instrument, account, counterparty, end } => {
            let note =
                report_end_note(venue, seq, (*account, *counterparty), *end, why_hours_ended(events, *instrument));
            let note = note.with("report", report.0);
            let note = match venue.reports.get(report) {
                Some(asked) => terms(note, venue, asked),
                None => note,
            };
            Some((*report, *instrument, note))
        }
        Event::OffBookTrade(trade) => {
            let last = venue.market(trade.instrument).and_then(|market| market.last).map(Ticks::get);
            let stays = last.map_or("there is still no last price".to_owned(), |last| {
                format!("the last price stays {}", venue.price(trade.instrument, Ticks(last)))
            });
            let text = format!(
                "both parties agree: {} change hands at {}, off-book trade {} of the instrument; no order, level or \
                 reference changes, and {stays}",
                venue.amount(trade.instrument, trade.lots),
                venue.price(trade.instrument, trade.price),
                trade.number
            );
            let [buyer, seller] = [trade.buyer, trade.seller].map(|party| venue.name_of(party));
            let note = Note::new(seq, venue, "confirmed", "rulebook: 23.5", text).with("report", trade.report.0);
            let note = note.with("price", trade.price.0).with("lots", trade.lots.0);
            let note = note.with("buyer", buyer).with("seller", seller).with("off_book_seq", trade.number);
            Some((trade.report, trade.instrument, note.with("last", last)))
        }
        _ => None,
    }
}

fn why_hours_ended(events: &[Event], instrument: InstrumentId) -> Option<SessionReason> {
    events.iter().find_map(|event| match *event {
        Event::ReportingChanged { instrument: of, open: false, reason, .. } if of == instrument => Some(reason),
        _ => None,
    })
}

fn report_end_note(
    venue: &VenueView,
    seq: Seq,
    (reporter, other): (AccountId, AccountId),
    end: ReportEnd,
    hours: Option<SessionReason>,
) -> Note {
    let (reporter, other) = (venue.name_of(reporter), venue.name_of(other));
    let (what, rule, text) = match end {
        ReportEnd::Declined => {
            ("declined", "rulebook: 23.2", format!("{other}, who was to confirm it, declined: no trade"))
        }
        ReportEnd::Withdrawn => {
            ("withdrawn", "rulebook: 23.2", format!("{reporter}, who reported it, took it back: no trade"))
        }
        ReportEnd::HoursEnded => {
            let by = hours.map_or("", SessionReason::name);
            let text = format!("the hours of trade reporting ended ({by}) before {other} had confirmed: no trade");
            ("not confirmed", "rulebook: 23.1", text)
        }
    };
    let note = Note::new(seq, venue, what, rule, text).with("reason", end.name());
    match hours.filter(|_| end == ReportEnd::HoursEnded) {
        Some(hours) => note.with("hours_ended_by", hours.name()),
        None => note,
    }
}

/// Explains the start or the end of the reporting hours.
pub(crate) fn hours(venue: &VenueView, seq: Seq, event: &Event) -> Option<(InstrumentId, Note)> {
    let Event::ReportingChanged { instrument, open, reason, ends } = *event else { return None };
    let does = if open { "begin" } else { "end" };
    let text = format!("the hours of trade reporting {does} ({}), whatever the session", reason.name());
    let note = Note::new(seq, venue, "trade reporting", "rulebook: 23.1", text).with("open", open);
    Some((instrument, note.with("reason", reason.name()).with("ends_ns", ends.map(|ends| ends.0))))
}

/// Explains a refused report or answer, if the viewer may know it.
pub(crate) fn refused(venue: &VenueView, stamped: &SequencedCommand, reason: Reject, viewer: Viewer) -> Option<Note> {
    match &stamped.command {
        Command::ReportTrade(report) if viewer.owns(report.account) => {
            Some(report_refused(venue, stamped.seq, report, reason))
        }
        Command::AnswerReport { account, report, confirm } if viewer.owns(*account) => {
            Some(answer_refused(venue, stamped.seq, *account, *report, *confirm, reason))
        }
        _ => None,
    }
}

fn report_refused(venue: &VenueView, seq: Seq, report: &TradeReport, reason: Reject) -> Note {
    let note = Note::new(seq, venue, "report refused", "rulebook: 23.3", "").with("reason", reason.name());
    let note = terms(note, venue, report).with("report", seq.0);
    let with_text = |note: Note, text: String| Note { text: format!("{}: {text}", reason.name()), ..note };
    match reason {
        Reject::ReportingClosed => {
            let session = venue.market(report.instrument).map_or("unknown", |market| market.phase.name());
            let text = format!(
                "the instrument is outside its hours of trade reporting; its session, {session}, is beside the point"
            );
            with_text(note.with("trade_reporting", false).with("session", session), text)
        }
        Reject::TooManyReports => {
            let (waiting, most) = (venue.waiting_of(report.account, report.instrument), TradeReport::MOST_WAITING);
            let text = format!(
                "{} of this account wait in the instrument, and at most {most} may",
                counted(waiting as u64, "report")
            );
            with_text(note.with("waiting", waiting).with("most", most), text)
        }
        Reject::QuantityOutOfRange => {
            let text = format!(
                "{} does not lie in {} to {}",
                venue.amount(report.instrument, report.lots),
                venue.amount(report.instrument, Lots(1)),
                venue.amount(report.instrument, Lots::MAX_ORDER)
            );
            with_text(note.with("most", Lots::MAX_ORDER.0), text)
        }
        Reject::PriceOutOfRange => {
            let text = {
                let [price, least, most] =
                    [report.price, Ticks(1), Ticks::MAX_PRICE].map(|price| venue.price(report.instrument, price));
                format!("price {price} does not lie in {least} to {most}")
            };
            with_text(note.with("most", Ticks::MAX_PRICE.0), text)
        }
        Reject::BadDefinition => {
            with_text(note, format!("{} is both parties; a trade has two", venue.name_of(report.account)))
        }
        _ => blocked_party_note(note, venue, report, reason),
    }
}

/// Explains a refusal because a party may not trade.
fn blocked_party_note(note: Note, venue: &VenueView, report: &TradeReport, reason: Reject) -> Note {
    let [buyer, seller] = report.parties().map(|party| venue.name_of(party));
    let name = reason.name();
    let text = match reason {
        Reject::Killed => format!("{name}: the venue, {buyer} (buys) or {seller} (sells) is stopped by an operator"),
        Reject::AccountClosed => format!("{name}: {buyer} (buys) or {seller} (sells) is closed"),
        Reject::ExecutionThrottle => {
            format!("{name}: {buyer} (buys) or {seller} (sells) is stopped by its execution throttle")
        }
        _ => format!("{name}: {}", Contracts::get().meaning(name)),
    };
    Note { text, ..note }
}

fn answer_refused(venue: &VenueView, seq: Seq, account: AccountId, number: Seq, confirm: bool, reason: Reject) -> Note {
    let (by, name) = (venue.name_of(account), reason.name());
    let does = if confirm { "confirm" } else { "decline" };
    let note = Note::new(seq, venue, "answer refused", "rulebook: 23.4", "").with("reason", name);
    let note = note.with("report", number.0).with("by", by.clone()).with("answer", does);
    let asked = venue.reports.get(&number).filter(|report| report.concerns(account));
    let Some(report) = asked else {
        // A report of other parties is answered like an unknown one.
        let text = match reason {
            Reject::UnknownReport => format!("{name}: no report {number} waits that {by} is a party of"),
            _ => format!("{name}: {}", Contracts::get().meaning(name)),
        };
        return Note { text, ..note };
    };
    let note = terms(note, venue, report);
    match reason {
        Reject::OwnReport => {
            let other = venue.name_of(report.counterparty);
            let text = format!("{name}: {by} reported it; {other} is the one to confirm. The report waits on");
            Note { text, ..note }
        }
        Reject::NotEnoughFunds => {
            let [buyer, seller] = report.parties().map(|party| venue.name_of(party));
            let text = format!(
                "{name}: {} at {} need more than is free, as an order would: {buyer}, who buys, was asked first, \
                 then {seller}. The report waits on",
                venue.amount(report.instrument, report.lots),
                venue.price(report.instrument, report.price)
            );
            Note { text, ..note }
        }
        _ => blocked_party_note(note, venue, report, reason),
    }
}

/// Explains a report that has no answer at the end of the log.
pub(crate) fn waits(venue: &VenueView, seq: Seq, number: Seq, report: &TradeReport) -> Note {
    let market: Option<&InstrumentView> = venue.market(report.instrument);
    let ends = market.and_then(|market| market.reporting_ends).map(|ends| ends.0);
    let (other, until) = (venue.name_of(report.counterparty), venue.until(report.instrument));
    let text = format!("{other} has not confirmed it; it may until the hours of trade reporting end (until {until})");
    let note = Note::new(seq, venue, "waits", "rulebook: 23.2", text).with("report", number.0);
    terms(note, venue, report).with("waits_for", other).with("ends_ns", ends)
}
