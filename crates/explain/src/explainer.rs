//! Follows a log and collects the notes that answer one question.

use pitwire_engine::EngineImage;
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Lots, OrderId, Phase, Seq, Side, Stamped, Ticks, TradeKind, TradeReport,
};
use pitwire_scenario::{Contracts, type_word};

use crate::cancellation::left;
use crate::note::Note;
use crate::open_order::open_order_note;
use crate::refusal;
use crate::restore::restore;
use crate::skipped_orders::SkippedOrders;
use crate::trade_reports;
use crate::uncross::CallCurve;
use crate::venue_view::{VenueView, ViewedOrder, ViewedState};
use crate::viewer::Viewer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Everything that happened to an order or to a trade report. A report has the number of its
    /// command.
    Order(OrderId),
    /// Everything that one command decided, for the named instrument or for all.
    At { seq: Seq, instrument: Option<String> },
}

#[derive(Debug)]
pub struct Explainer {
    question: Question,
    viewer: Viewer,
    venue: VenueView,
    notes: Vec<Note>,
    last: Seq,
    /// The instrument of the order in question.
    home: Option<InstrumentId>,
    /// The owner of the order, or the reporter and, once the report was accepted, the other party.
    owners: Vec<AccountId>,
    /// Whether the order in question was active before the current command.
    took_part: bool,
}

impl Explainer {
    /// Starts at the beginning of a log.
    pub fn new(question: Question, viewer: Viewer) -> Explainer {
        let (venue, notes, last, home, owners) = (VenueView::default(), Vec::new(), Seq(0), None, Vec::new());
        Explainer { question, viewer, venue, notes, last, home, owners, took_part: false }
    }

    /// Starts at a snapshot.
    pub fn resume(question: Question, viewer: Viewer, image: &EngineImage, seq: Seq) -> Explainer {
        let mut explainer = Explainer { last: seq, ..Explainer::new(question, viewer) };
        restore(&mut explainer.venue, image);
        if let Question::Order(id) = explainer.question {
            let order = explainer.venue.orders.get(&id);
            explainer.home = order.map(|order| order.instrument);
            explainer.owners.extend(order.map(|order| order.account));
            let report = explainer.venue.reports.get(&Seq(id.0));
            explainer.owners.extend(report.into_iter().flat_map(TradeReport::parties));
        }
        explainer
    }

    pub fn observe(&mut self, stamped: &Stamped, events: &[Event]) {
        self.venue.now = stamped.at;
        self.last = stamped.seq;
        if let (&Question::Order(id), Command::Enter(entered)) = (&self.question, &stamped.command)
            && entered.id == id
        {
            (self.home, self.owners) = (Some(entered.instrument), vec![entered.account]);
        }
        if let (true, Command::ReportTrade(report)) = (self.is_report_asked(stamped.seq), &stamped.command) {
            let was_taken = events.iter().any(|event| matches!(event, Event::TradeReported { .. }));
            self.owners = if was_taken { report.parties().to_vec() } else { vec![report.account] };
        }
        self.took_part = self.is_active();
        let curve = self.curve_before(stamped);
        let mut skipped = SkippedOrders::default();
        let mut traded = false;
        for event in events {
            traded |= self.is_of_target(event);
            self.explain(stamped, event, events, curve.as_ref());
            skipped.note(&self.venue, event);
            self.venue.follow(stamped, event);
            skipped.arrived(&self.venue, event);
        }
        self.venue.settle();
        if let (&Question::Order(id), false) = (&self.question, traded)
            && let Some(target) = self.venue.orders.get(&id)
        {
            self.notes.extend(skipped.over(&self.venue, target, stamped, self.viewer));
        }
    }

    fn is_active(&self) -> bool {
        let Question::Order(id) = self.question else { return false };
        self.venue.orders.get(&id).is_some_and(|order| order.place == ViewedState::Active)
    }

    /// Returns the notes and the state at the end of the log. A member gets notes about own orders
    /// only.
    pub fn finish(mut self) -> Vec<Note> {
        if self.viewer != Viewer::Operator && !self.owners.iter().any(|owner| self.viewer.owns(*owner)) {
            return Vec::new();
        }
        if let Question::Order(id) = self.question
            && let Some(order) = self.venue.orders.get(&id)
        {
            self.notes.push(open_order_note(&self.venue, self.last, order, self.viewer));
        }
        if let Question::Order(OrderId(id)) = self.question
            && let Some(report) = self.venue.reports.get(&Seq(id))
        {
            self.notes.push(trade_reports::waits(&self.venue, self.last, Seq(id), report));
        }
        self.notes
    }

    /// Returns the book of a call before this command ends it, if the question needs it.
    fn curve_before(&self, stamped: &Stamped) -> Option<(InstrumentId, CallCurve)> {
        let instrument = match stamped.command {
            Command::ChangeSession { instrument, .. } | Command::RunBatch { instrument } => instrument,
            _ => return None,
        };
        let wanted = match self.question {
            Question::Order(id) => self.venue.orders.get(&id).is_some_and(|order| order.instrument == instrument),
            Question::At { seq, .. } => seq == stamped.seq && self.is_asked_about(instrument),
        };
        let phase = self.venue.market(instrument)?.phase;
        let uncrosses = phase.is_call() || matches!(stamped.command, Command::RunBatch { .. });
        (wanted && uncrosses).then(|| (instrument, CallCurve::of(&self.venue, instrument)))
    }

    fn is_of_target(&self, event: &Event) -> bool {
        let Question::Order(id) = self.question else { return false };
        match *event {
            Event::Trade { maker, taker, .. } => maker == id || taker == id,
            Event::Accepted { order, .. } | Event::Amended { order, .. } | Event::Triggered { order, .. } => {
                order == id
            }
            _ => false,
        }
    }

    fn concerns(&self, order: OrderId, seq: Seq) -> bool {
        match self.question {
            Question::Order(id) => id == order,
            Question::At { seq: asked, .. } => {
                seq == asked && self.venue.orders.get(&order).is_none_or(|order| self.is_asked_about(order.instrument))
            }
        }
    }

    fn is_report_asked(&self, report: Seq) -> bool {
        matches!(self.question, Question::Order(OrderId(id)) if id == report.0)
    }

    /// Explains an event about trade reporting, if the question is about it.
    fn beside_the_book(&self, stamped: &Stamped, event: &Event, events: &[Event]) -> Option<Note> {
        let (venue, seq) = (&self.venue, stamped.seq);
        let at = |instrument| {
            matches!(self.question, Question::At { seq: asked, .. } if asked == seq) && self.is_asked_about(instrument)
        };
        if let Event::CommandRefused { reason } = event {
            let is_asked = match self.question {
                Question::Order(_) => {
                    trade_reports::report_of(stamped).is_some_and(|report| self.is_report_asked(report))
                }
                Question::At { seq: asked, .. } => asked == seq,
            };
            return trade_reports::refused(venue, stamped, *reason, self.viewer).filter(|_| is_asked);
        }
        if let Some((instrument, note)) = trade_reports::hours(venue, seq, event) {
            return at(instrument).then_some(note);
        }
        let (report, instrument, note) = trade_reports::report_note(venue, seq, event, events)?;
        (self.is_report_asked(report) || at(instrument)).then_some(note)
    }

    fn is_asked_about(&self, instrument: InstrumentId) -> bool {
        let Question::At { instrument: Some(asked), .. } = &self.question else { return true };
        self.venue.market(instrument).is_some_and(|market| market.spec.name == *asked)
    }

    fn concerns_market(&self, instrument: InstrumentId, seq: Seq) -> bool {
        match self.question {
            Question::Order(_) => self.home == Some(instrument) && self.took_part,
            Question::At { seq: at, .. } => seq == at && self.is_asked_about(instrument),
        }
    }

    fn explain(
        &mut self,
        stamped: &Stamped,
        event: &Event,
        events: &[Event],
        curve: Option<&(InstrumentId, CallCurve)>,
    ) {
        let (venue, seq) = (&self.venue, stamped.seq);
        if let Some(note) = self.beside_the_book(stamped, event, events) {
            self.notes.push(note);
            return;
        }
        let note = match (event, &stamped.command) {
            (Event::Rejected { order, reason, .. }, Command::Enter(entered)) if self.concerns(*order, seq) => {
                Some(refusal::entry(venue, seq, entered, *reason))
            }
            (Event::AmendRefused { order, account, reason }, Command::Amend(amend))
                if self.concerns(*order, seq) && self.viewer.owns(*account) =>
            {
                Some(refusal::amend(venue, seq, amend, *reason))
            }
            (Event::CancelRefused { order, account, reason }, _)
                if self.concerns(*order, seq) && self.viewer.owns(*account) =>
            {
                Some(refusal::cancel(venue, seq, *order, *reason))
            }
            (Event::CommandRefused { reason }, _) if matches!(self.question, Question::At { seq: asked, .. } if asked == seq) =>
            {
                let contracts = Contracts::get();
                let text = format!("{}: {}", reason.name(), contracts.meaning(reason.name()));
                let rule = contracts.rule_of(reason.name());
                Some(Note::new(seq, venue.now, "refused", rule, text).with("reason", reason.name()))
            }
            (Event::Accepted { order, .. }, _) if self.concerns(*order, seq) => Some(accepted(venue, seq, event)),
            (Event::Cancelled { order, open, reason, .. }, _) if self.concerns(*order, seq) => venue
                .orders
                .get(order)
                .map(|order| left(venue, seq, order, *open, *reason, events, self.viewer).with("order", order.id.0)),
            (Event::Trade { maker, taker, .. }, _) if self.is_of_target(event) => {
                let Question::Order(id) = self.question else { return };
                debug_assert!(*maker == id || *taker == id);
                Some(traded(venue, seq, event, id, self.viewer))
            }
            (Event::Uncrossed { instrument, price, .. }, _) if self.concerns_market(*instrument, seq) => {
                let found = curve.filter(|(of, _)| of == instrument);
                found.map(|(_, curve)| self.uncross(curve, seq, *instrument, *price))
            }
            (Event::Breached { instrument, price, reference, against, bps }, _)
                if self.concerns_market(*instrument, seq) =>
            {
                let against = format!("{against:?}").to_lowercase();
                let distance = (price.0 - reference.0).abs();
                let text = format!(
                    "an execution at {price} lies {distance} from the {against} reference {reference}; from {bps}/10000 of \
                     it on nothing executes"
                );
                let note = Note::new(seq, venue.now, "breaker", "rulebook: 10.2", text).with("price", price.0);
                Some(note.with("reference", reference.0).with("against", against).with("tolerance_bps", *bps))
            }
            (Event::SessionChanged { instrument, from, to, .. }, _) if self.concerns_market(*instrument, seq) => {
                self.notes.extend(self.ended_without_a_price(curve, seq, event, events));
                let text = format!("{} to {}", from.name(), to.name());
                matches!(self.question, Question::At { .. })
                    .then(|| Note::new(seq, self.venue.now, "session", "rulebook: 5.2", text))
            }
            (Event::Parked { order, open, .. }, _) if self.concerns(*order, seq) => {
                venue.orders.get(order).map(|order| {
                    let market = venue.market(order.instrument);
                    let wanted = market.map_or("its session", |market| refusal::waits_for(market, order.tif).0);
                    let text = format!("{open} lots wait for {wanted}");
                    Note::new(seq, venue.now, "parked", "rulebook: 6", text)
                        .with("waits_for", wanted)
                        .with("open", open.0)
                })
            }
            (Event::Injected { order, .. }, _) if self.concerns(*order, seq) => {
                let text = "its session begins".to_owned();
                Some(Note::new(seq, venue.now, "injected", "rulebook: 5.2, step 9", text))
            }
            (Event::Triggered { order, last, .. }, _) if self.concerns(*order, seq) => {
                let stop = venue.orders.get(order).and_then(ViewedOrder::stop).unwrap_or_default();
                let text = format!("the last price {last} reached its stop price {stop}");
                Some(
                    Note::new(seq, venue.now, "triggered", "rulebook: 14, 1", text)
                        .with("last", last.0)
                        .with("stop", stop.0),
                )
            }
            (Event::Amended { order, kept_priority, price, lots, .. }, _) if self.concerns(*order, seq) => {
                let kept = if *kept_priority { "keeps its place" } else { "goes to the back of its queue" };
                let text = format!("now {lots} lots at {price}; {kept}");
                Some(Note::new(seq, venue.now, "amended", "rulebook: 9", text).with("kept_priority", *kept_priority))
            }
            (Event::ClosingPriceSet { instrument, price, derivation }, _) if self.concerns_market(*instrument, seq) => {
                let text = format!("closing price {price}: {derivation:?}");
                matches!(self.question, Question::At { .. })
                    .then(|| Note::new(seq, venue.now, "closing price", "rulebook: 13", text).with("price", price.0))
            }
            _ => None,
        };
        self.notes.extend(note);
    }

    fn uncross(&self, curve: &CallCurve, seq: Seq, instrument: InstrumentId, price: Ticks) -> Note {
        let note = self.of_curve(curve, seq, instrument, Some(price));
        match self.question {
            Question::Order(id) => of_target(note, curve, price, self.venue.orders.get(&id), self.viewer),
            Question::At { .. } => note,
        }
    }

    fn of_curve(&self, curve: &CallCurve, seq: Seq, instrument: InstrumentId, price: Option<Ticks>) -> Note {
        match self.viewer {
            Viewer::Operator => curve.note(&self.venue, seq, instrument, price),
            Viewer::Member(_) => curve.outcome(&self.venue, seq, instrument, price),
        }
    }

    /// Explains a call that ended without an uncross. The note comes with the session change.
    fn ended_without_a_price(
        &self,
        curve: Option<&(InstrumentId, CallCurve)>,
        seq: Seq,
        event: &Event,
        events: &[Event],
    ) -> Option<Note> {
        let Event::SessionChanged { instrument, from, to, .. } = *event else { return None };
        let (_, curve) = curve.filter(|(of, _)| *of == instrument)?;
        let interrupts = matches!(to, Phase::Halted | Phase::HaltAndClose | Phase::Pause);
        let absorbs = from.is_triggered_call() && to.is_scheduled_call();
        if from.is_call() && (interrupts || absorbs) {
            let (rule, how) = match interrupts {
                true => ("rulebook: 5.2, step 2", "was interrupted by"),
                false => ("rulebook: 5.2, step 1", "was absorbed by"),
            };
            let text = format!("{} {how} {}: nothing uncrosses, the orders stay", from.name(), to.name());
            return Some(Note::new(seq, self.venue.now, "no uncross", rule, text));
        }
        let decided = events.iter().any(|event| match event {
            Event::Uncrossed { instrument: of, .. } | Event::Breached { instrument: of, .. } => *of == instrument,
            _ => false,
        });
        (from.is_call() && !decided).then(|| self.of_curve(curve, seq, instrument, None))
    }
}

/// Adds the effect of an uncross on one order. The view already contains the trades.
fn of_target(note: Note, curve: &CallCurve, price: Ticks, order: Option<&ViewedOrder>, viewer: Viewer) -> Note {
    let Some(order) = order else { return note };
    let hidden = curve.passed.iter().find(|(passed, _, _)| *passed == order.id.0);
    let addition = match hidden {
        Some((_, mes, available)) if viewer == Viewer::Operator => {
            format!("this order's MES is {mes}, and {available} lots were available to it")
        }
        _ if !order.accepts(price) => format!("this order's limit does not reach {price}"),
        _ => format!("{} lots of this order are left", order.open),
    };
    Note { text: format!("{}; {addition}", note.text), ..note }
}

fn accepted(venue: &VenueView, seq: Seq, event: &Event) -> Note {
    let Event::Accepted { order, instrument, order_type, tif, lots, display, .. } = *event else {
        return Note::new(seq, venue.now, "accepted", "", "");
    };
    let session = venue.market(instrument).map_or("closed", |market| market.phase.name());
    let (tif, kind) = (tif.name(), type_word(order_type, display.is_some()));
    let cell = Contracts::get().session_cell(session, kind);
    let (rule, meaning) = cell.map_or(("", ""), |cell| (cell.rule.as_str(), cell.text.as_str()));
    Note::new(seq, venue.now, "accepted", rule, format!("{lots} lots, {kind} {tif} in {session}: {meaning}"))
        .with("order", order.0)
        .with("session", session)
        .with("type", kind)
        .with("tif", tif)
        .with("lots", lots.0)
}

fn traded(venue: &VenueView, seq: Seq, event: &Event, id: OrderId, viewer: Viewer) -> Note {
    let Event::Trade { instrument, price, lots, kind, maker, maker_open, taker, taker_open, trade_seq, .. } = *event
    else {
        return Note::new(seq, venue.now, "trade", "", "");
    };
    let (other, open) = if maker == id { (taker, maker_open) } else { (maker, taker_open) };
    let resting = venue.orders.get(&maker);
    let (rule, why) = match kind {
        TradeKind::Filter => ("rulebook: 8.2, step 7", "the price of filter and uncross".to_owned()),
        TradeKind::Call(call) => ("rulebook: 11.2", format!("the one price of {}", call.name())),
        TradeKind::Cross => ("rulebook: 12", "the closing price".to_owned()),
        TradeKind::Continuous => match resting {
            Some(maker) if maker.is_hidden() && maker.price() != Some(price) => {
                let [bid, offer] = [Side::Buy, Side::Sell].map(|side| venue.best_visible(instrument, side));
                let show = |price: Option<Ticks>| price.map_or("none".to_owned(), |price| price.to_string());
                // Only its owner may learn the limit of a hidden order.
                let whose = match viewer.owns(maker.account) {
                    true => format!("the resting hidden order's {}", show(maker.price())),
                    false => "a resting hidden order's".to_owned(),
                };
                ("rulebook: 7.3", format!("{whose}, improved between {} and {}", show(bid), show(offer)))
            }
            _ => ("rulebook: 7.2", "the resting order's price".to_owned()),
        },
    };
    // Members never learn the other party of a trade.
    let with = if viewer == Viewer::Operator { format!(" with order {other}") } else { String::new() };
    let text = format!("{lots} lots at {price}{with}: {why}; {open} left");
    let done = if open == Lots::ZERO { "filled" } else { "trade" };
    let note = Note::new(seq, venue.now, done, rule, text)
        .with("price", price.0)
        .with("lots", lots.0)
        .with("trade_seq", trade_seq.0)
        .with("open", open.0);
    if viewer == Viewer::Operator { note.with("with", other.0) } else { note }
}
