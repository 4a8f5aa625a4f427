//! Follows a log and collects the notes that answer one question.

use pitwire_engine::EngineImage;
use pitwire_model::{
    AccountId, Allocation, Command, Event, InstrumentId, Lots, OrderId, Phase, PostOnly, Seq, SequencedCommand, Side,
    Ticks, TradeKind, TradeReport,
};
use pitwire_scenario::{Contracts, type_word};

use crate::cancellation::left;
use crate::note::Note;
use crate::open_order::open_order_note;
use crate::refusal;
use crate::restore::restore;
use crate::skipped_orders::SkippedOrders;
use crate::text_style::TextStyle;
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

    /// Sets how texts write prices, quantities and times.
    #[must_use]
    pub fn with_style(mut self, style: TextStyle) -> Explainer {
        self.venue.style = style;
        self
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

    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) {
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
    fn curve_before(&self, stamped: &SequencedCommand) -> Option<(InstrumentId, CallCurve)> {
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
    fn beside_the_book(&self, stamped: &SequencedCommand, event: &Event, events: &[Event]) -> Option<Note> {
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

    /// Whether the order in question has left the book, so that what follows does not concern it.
    fn is_target_gone(&self) -> bool {
        let Question::Order(id) = self.question else { return false };
        !self.venue.orders.contains_key(&id)
    }

    fn concerns_market(&self, instrument: InstrumentId, seq: Seq) -> bool {
        match self.question {
            Question::Order(_) => self.home == Some(instrument) && self.took_part,
            Question::At { seq: at, .. } => seq == at && self.is_asked_about(instrument),
        }
    }

    fn explain(
        &mut self,
        stamped: &SequencedCommand,
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
                Some(Note::new(seq, venue, "refused", rule, text).with("reason", reason.name()))
            }
            (Event::Accepted { order, .. }, _) if self.concerns(*order, seq) => {
                Some(accepted(venue, seq, event, &stamped.command))
            }
            (Event::Cancelled { order, open, reason, .. }, _) if self.concerns(*order, seq) => {
                venue.orders.get(order).map(|order| {
                    left(venue, stamped, order, *open, *reason, events, self.viewer).with("order", order.id.0)
                })
            }
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
                if self.concerns_market(*instrument, seq) && !self.is_target_gone() =>
            {
                let against = format!("{against:?}").to_lowercase();
                let [at, from] = [*price, *reference].map(|price| venue.price(*instrument, price));
                let distance = venue.price(*instrument, Ticks((price.0 - reference.0).abs()));
                let text = format!(
                    "an execution at {at} lies {distance} from the {against} reference {from}; from {bps}/10000 of it on \
                     nothing executes"
                );
                let note = Note::new(seq, venue, "breaker", "rulebook: 10.2", text).with("price", price.0);
                Some(note.with("reference", reference.0).with("against", against).with("tolerance_bps", *bps))
            }
            (Event::SessionChanged { instrument, from, to, .. }, _) if self.concerns_market(*instrument, seq) => {
                self.notes.extend(self.ended_without_a_price(curve, seq, event, events));
                let text = format!("{} to {}", from.name(), to.name());
                matches!(self.question, Question::At { .. })
                    .then(|| Note::new(seq, &self.venue, "session", "rulebook: 5.2", text))
            }
            (Event::Parked { order, open, .. }, _) if self.concerns(*order, seq) => {
                venue.orders.get(order).map(|order| {
                    let market = venue.market(order.instrument);
                    let wanted = market.map_or("its session", |market| refusal::waits_for(market, order.tif).0);
                    let text = format!("{} waits for {wanted}", venue.amount(order.instrument, *open));
                    Note::new(seq, venue, "parked", "rulebook: 6", text).with("waits_for", wanted).with("open", open.0)
                })
            }
            (Event::Injected { order, .. }, _) if self.concerns(*order, seq) => {
                let text = "its session begins".to_owned();
                Some(Note::new(seq, venue, "injected", "rulebook: 5.2, step 9", text))
            }
            (Event::Triggered { order, last, .. }, _) if self.concerns(*order, seq) => {
                let instrument = venue.orders.get(order).map(|order| order.instrument).unwrap_or_default();
                let stop = venue.orders.get(order).and_then(ViewedOrder::stop).unwrap_or_default();
                let [at, wanted] = [*last, stop].map(|price| venue.price(instrument, price));
                let text = format!("the last price {at} reached its stop price {wanted}");
                Some(
                    Note::new(seq, venue, "triggered", "rulebook: 14, 1", text)
                        .with("last", last.0)
                        .with("stop", stop.0),
                )
            }
            (Event::Amended { order, instrument, lots, .. }, command)
                if self.concerns(*order, seq) && !matches!(command, Command::Amend(amend) if amend.order == *order) =>
            {
                let lots = venue.amount(*instrument, *lots);
                let text = format!("now {lots}: a reduce-only order is at most as large as the position");
                Some(Note::new(seq, venue, "amended", "rulebook: 24", text).with("kept_priority", true))
            }
            (Event::Amended { order, instrument, side, kept_priority, price, lots, .. }, command)
                if self.concerns(*order, seq) =>
            {
                let kept = if *kept_priority { "keeps its place" } else { "goes to the back of its queue" };
                let moved = match command {
                    Command::Amend(amend) if amend.post_only != PostOnly::No && amend.price != *price => {
                        moved_text(venue, *instrument, *side, amend.price, *price)
                    }
                    _ => String::new(),
                };
                let (lots, price) = (venue.amount(*instrument, *lots), venue.price(*instrument, *price));
                let text = format!("now {lots} at {price}; {kept}{moved}");
                Some(Note::new(seq, venue, "amended", "rulebook: 9", text).with("kept_priority", *kept_priority))
            }
            (Event::ClosingPriceSet { instrument, price, derivation }, _) if self.concerns_market(*instrument, seq) => {
                let text = format!("closing price {}: {}", venue.price(*instrument, *price), derivation.name());
                matches!(self.question, Question::At { .. })
                    .then(|| Note::new(seq, venue, "closing price", "rulebook: 13", text).with("price", price.0))
            }
            _ => None,
        };
        self.notes.extend(note);
    }

    fn uncross(&self, curve: &CallCurve, seq: Seq, instrument: InstrumentId, price: Ticks) -> Note {
        let note = self.of_curve(curve, seq, instrument, Some(price));
        match self.question {
            Question::Order(id) => of_target(note, &self.venue, curve, price, self.venue.orders.get(&id), self.viewer),
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
            return Some(Note::new(seq, &self.venue, "no uncross", rule, text));
        }
        let decided = events.iter().any(|event| match event {
            Event::Uncrossed { instrument: of, .. } | Event::Breached { instrument: of, .. } => *of == instrument,
            _ => false,
        });
        (from.is_call() && !decided).then(|| self.of_curve(curve, seq, instrument, None))
    }
}

/// Adds the effect of an uncross on one order. The view already contains the trades.
fn of_target(
    note: Note,
    venue: &VenueView,
    curve: &CallCurve,
    price: Ticks,
    order: Option<&ViewedOrder>,
    viewer: Viewer,
) -> Note {
    let Some(order) = order else { return note };
    let hidden = curve.passed.iter().find(|(passed, _, _)| *passed == order.id.0);
    let addition = match hidden {
        Some((_, mes, available)) if viewer == Viewer::Operator => {
            let [mes, available] = [*mes, *available].map(|lots| venue.amount(order.instrument, Lots(lots)));
            format!("this order's minimum execution size is {mes}, and {available} could trade with it")
        }
        _ if !order.accepts(price) => {
            format!("this order's limit does not reach {}", venue.price(order.instrument, price))
        }
        _ => format!("{} of this order did not trade", venue.amount(order.instrument, order.open)),
    };
    Note { text: format!("{}; {addition}", note.text), ..note }
}

fn accepted(venue: &VenueView, seq: Seq, event: &Event, command: &Command) -> Note {
    let Event::Accepted { order, instrument, side, order_type, tif, lots, display, .. } = *event else {
        return Note::new(seq, venue, "accepted", "", "");
    };
    let session = venue.market(instrument).map_or("closed", |market| market.phase.name());
    let (tif, kind) = (tif.name(), type_word(order_type, display.is_some()));
    let cell = Contracts::get().deciding_cell(session, tif, kind);
    let rule = cell.map_or("", |cell| cell.rule.as_str());
    let is_in_batch = session == Phase::Continuous.name()
        && venue.market(instrument).is_some_and(|market| market.rules().allocation == Allocation::FrequentBatch);
    let meaning = match cell.map(|cell| (cell.answer.as_str(), cell.text.as_str())) {
        Some(("immediate", _)) if is_in_batch => {
            "The order takes part in the batch that runs; what does not trade in it expires."
        }
        Some(("immediate", _)) => "The order trades at once; what does not trade expires.",
        Some((_, text)) => text,
        None => "",
    };
    let text = format!("{}, {kind} {tif} in {session}: {meaning}", venue.amount(instrument, lots));
    let note = Note::new(seq, venue, "accepted", rule, text)
        .with("order", order.0)
        .with("session", session)
        .with("type", kind)
        .with("tif", tif)
        .with("lots", lots.0);
    let Command::Enter(entered) = command else { return note };
    match (entered.order_type.limit_price(), order_type.limit_price()) {
        (Some(asked), Some(price)) if asked != price => {
            let text = format!("{}{}", note.text, moved_text(venue, instrument, side, asked, price));
            Note { text, ..note }.with("asked_price", asked.0).with("price", price.0)
        }
        _ => note,
    }
}

/// Returns the text about a post-only order whose price was moved.
fn moved_text(venue: &VenueView, instrument: InstrumentId, side: Side, asked: Ticks, price: Ticks) -> String {
    let [asked, price] = [asked, price].map(|price| venue.price(instrument, price));
    let best = venue.price_or_none(instrument, venue.best_visible(instrument, side.opposite()));
    format!(" Post-only moved its price from {asked} to {price}, one tick short of the other side's best, {best}.")
}

fn traded(venue: &VenueView, seq: Seq, event: &Event, id: OrderId, viewer: Viewer) -> Note {
    let Event::Trade { instrument, price, lots, kind, maker, maker_open, taker, taker_open, trade_seq, .. } = *event
    else {
        return Note::new(seq, venue, "trade", "", "");
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
                let show = |price: Option<Ticks>| venue.price_or_none(instrument, price);
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
    let [traded, left] = [lots, open].map(|lots| venue.amount(instrument, lots));
    let left = if open == Lots::ZERO { "nothing is left".to_owned() } else { format!("{left} left") };
    let text = format!("{traded} at {}{with}: {why}; {left}", venue.price(instrument, price));
    let done = if open == Lots::ZERO { "filled" } else { "trade" };
    let note = Note::new(seq, venue, done, rule, text)
        .with("price", price.0)
        .with("lots", lots.0)
        .with("trade_seq", trade_seq.0)
        .with("open", open.0);
    if viewer == Viewer::Operator { note.with("with", other.0) } else { note }
}
