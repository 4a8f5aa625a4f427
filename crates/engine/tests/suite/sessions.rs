//! Sessions, times in force and money in cases that the vectors do not cover: several instruments,
//! several days, limited accounts. Each expectation is computed by hand from the rulebook.

use crate::common::world::{NPN_ZAR, Stamper, ZAR, apply, opening_commands};
use pitwire_engine::{Engine, UndisplayedState};
use pitwire_model::{
    AccountId, CancelReason, Command, Event, InstrumentId, InstrumentLimits, Lots, NewOrder, OrderId, OrderType, Phase,
    Reject, RemainingSessions, SessionReason, Side, Ticks, TimeInForce, VenueDay, VenueNanos,
};

/// An account without limits.
const HOUSE: AccountId = AccountId(0);
/// An account with 1,000 rand and 100 shares.
const MEMBER: AccountId = AccountId(2);
const TODAY: VenueDay = VenueDay(20_458);

struct SessionFixture {
    engine: Engine,
    stamper: Stamper,
    last: u64,
}

impl SessionFixture {
    fn new() -> Self {
        let mut fixture = SessionFixture { engine: Engine::new(), stamper: Stamper::default(), last: 0 };
        for command in opening_commands(100, 100) {
            fixture.run(command);
        }
        fixture.run(Command::BeginDay { day: TODAY, closes: VenueNanos(u64::MAX) });
        let mut remaining = RemainingSessions::default();
        remaining.counts.fill(1);
        fixture.run(Command::SetRemaining { instrument: NPN_ZAR, remaining });
        fixture
    }

    fn run(&mut self, command: Command) -> Vec<Event> {
        let stamped = self.stamper.stamp(command);
        apply(&mut self.engine, &stamped)
    }

    fn session(&mut self, to: Phase) -> Vec<Event> {
        self.change(to, SessionReason::Scheduled)
    }

    fn change(&mut self, to: Phase, reason: SessionReason) -> Vec<Event> {
        self.run(Command::ChangeSession { instrument: NPN_ZAR, to, reason, due: VenueNanos(0), ends: None })
    }

    fn enter(
        &mut self,
        account: AccountId,
        side: Side,
        order_type: OrderType,
        lots: u64,
        tif: TimeInForce,
    ) -> Vec<Event> {
        self.last += 1;
        let order = NewOrder {
            id: OrderId(1_000 + self.last),
            account,
            instrument: NPN_ZAR,
            side,
            order_type,
            lots: Lots(lots),
            tif,
            ..NewOrder::PLAIN
        };
        self.run(Command::Enter(order))
    }

    fn limit(&mut self, side: Side, lots: u64, price: i64, tif: TimeInForce) -> Vec<Event> {
        self.enter(HOUSE, side, OrderType::Limit { price: Ticks(price) }, lots, tif)
    }

    fn order(&self) -> OrderId {
        OrderId(1_000 + self.last)
    }

    fn place(&self, order: OrderId) -> Option<Option<UndisplayedState>> {
        self.engine.order(order).map(|order| order.place)
    }

    /// Returns the reserved money of the member, in cents.
    fn reserved(&self) -> i128 {
        self.engine.account(MEMBER).expect("defined").balance(ZAR).reserved
    }

    fn change_id(&self) -> u64 {
        self.engine.market(NPN_ZAR).expect("defined").change_id()
    }
}

fn refusal(events: &[Event]) -> Option<Reject> {
    events.iter().find_map(|event| match event {
        Event::Rejected { reason, .. } | Event::CommandRefused { reason } => Some(*reason),
        _ => None,
    })
}

fn ends(events: &[Event]) -> Vec<(OrderId, CancelReason)> {
    let end = |event: &Event| match event {
        Event::Cancelled { order, reason, .. } => Some((*order, *reason)),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

/// A tick is one cent and a lot is one share, so a reservation in cents is price times lots.
#[test]
fn waiting_orders_reserve_like_resting_ones() {
    let mut fixture = SessionFixture::new();
    let limit = OrderType::Limit { price: Ticks(900) };
    fixture.enter(MEMBER, Side::Buy, limit, 7, TimeInForce::AnyCall);
    assert_eq!((fixture.place(fixture.order()), fixture.reserved()), (Some(Some(UndisplayedState::Parked)), 6_300));
    // Before the first trade the reference is the start price, 1,000. A buy stop reserves money up
    // to twice the reference.
    fixture.enter(MEMBER, Side::Buy, OrderType::Stop { stop: Ticks(1_100) }, 3, TimeInForce::Day);
    assert_eq!((fixture.place(fixture.order()), fixture.reserved()), (Some(Some(UndisplayedState::Unelected)), 12_300));
    fixture.run(Command::Cancel { account: MEMBER, order: fixture.order() });
    assert_eq!(fixture.reserved(), 6_300);
    // In a call the parked order rests, and its reservation is the same. A market buy reserves up
    // to the same price as the stop.
    fixture.session(Phase::IntradayCall);
    assert_eq!(fixture.reserved(), 6_300);
    fixture.enter(MEMBER, Side::Buy, OrderType::Market, 2, TimeInForce::Day);
    assert_eq!((fixture.place(fixture.order()), fixture.reserved()), (Some(Some(UndisplayedState::Unpriced)), 10_300));
    // The market order trades at 1,000, and the rest of its reservation is released.
    fixture.limit(Side::Sell, 2, 1_000, TimeInForce::Day);
    fixture.session(Phase::Continuous);
    assert_eq!(fixture.reserved(), 6_300);
    let total = fixture.engine.account(MEMBER).expect("defined").balance(ZAR).total;
    assert_eq!(total, 100_000 - 2_000);
}

#[test]
fn waiting_buy_without_a_bound_is_refused() {
    let mut fixture = SessionFixture::new();
    fixture.session(Phase::IntradayCall);
    // The highest price is 2,000. The member has 100,000, which is enough for 50 shares.
    assert_eq!(
        refusal(&fixture.enter(MEMBER, Side::Buy, OrderType::Market, 51, TimeInForce::Day)),
        Some(Reject::NotEnoughFunds)
    );
    assert_eq!(refusal(&fixture.enter(MEMBER, Side::Buy, OrderType::Market, 50, TimeInForce::Day)), None);
    // With a collar of 10 % the highest price is 1,100.
    let mut fixture = SessionFixture::new();
    let limits = InstrumentLimits { collar_bps: Some(1_000), ..InstrumentLimits::default() };
    fixture.run(Command::SetInstrumentLimits { instrument: NPN_ZAR, limits });
    fixture.session(Phase::IntradayCall);
    assert_eq!(refusal(&fixture.enter(MEMBER, Side::Buy, OrderType::Market, 90, TimeInForce::Day)), None);
    assert_eq!(fixture.reserved(), 99_000);
    // Without a reference price the highest price is unknown, and a limited account is refused.
    let mut image = SessionFixture::new().engine.image();
    image.markets[NPN_ZAR.0 as usize].session.static_reference = None;
    let mut fixture = SessionFixture { engine: Engine::from_image(image).expect("sound"), ..SessionFixture::new() };
    fixture.session(Phase::IntradayCall);
    assert_eq!(
        refusal(&fixture.enter(MEMBER, Side::Buy, OrderType::Market, 1, TimeInForce::Day)),
        Some(Reject::NotEnoughFunds)
    );
    assert_eq!(refusal(&fixture.enter(HOUSE, Side::Buy, OrderType::Market, 1, TimeInForce::Day)), None);
}

#[test]
fn undisplayed_orders_change_nothing_public() {
    let mut fixture = SessionFixture::new();
    let before = fixture.change_id();
    fixture.limit(Side::Buy, 5, 900, TimeInForce::ClosingCall);
    let parked = fixture.order();
    fixture.enter(HOUSE, Side::Buy, OrderType::Stop { stop: Ticks(1_100) }, 3, TimeInForce::Day);
    let hidden = OrderType::Hidden { price: Ticks(900), minimum_execution: Lots(1) };
    fixture.enter(HOUSE, Side::Buy, hidden, 3, TimeInForce::Day);
    assert_eq!(fixture.change_id(), before);
    for order in [parked, OrderId(parked.0 + 1), fixture.order()] {
        let events = fixture.run(Command::Cancel { account: HOUSE, order });
        assert_eq!((ends(&events), events.len()), (vec![(order, CancelReason::Requested)], 1));
    }
    assert_eq!((fixture.change_id(), fixture.engine.live_orders()), (before, 0));
}

/// The limit of open orders also counts parked orders and stop orders.
#[test]
fn parked_and_unelected_orders_count_as_open_orders() {
    let mut fixture = SessionFixture::new();
    for _ in 0..50 {
        fixture.limit(Side::Buy, 1, 900, TimeInForce::ClosingCall);
        fixture.enter(HOUSE, Side::Buy, OrderType::Stop { stop: Ticks(1_100) }, 1, TimeInForce::Day);
    }
    assert_eq!(refusal(&fixture.limit(Side::Buy, 1, 900, TimeInForce::Day)), Some(Reject::BookFull));
    assert_eq!(refusal(&fixture.limit(Side::Buy, 1, 900, TimeInForce::ImmediateOrCancel)), None);
    assert_eq!(refusal(&fixture.enter(HOUSE, Side::Buy, OrderType::Market, 1, TimeInForce::Day)), None);
}

#[test]
fn gtt_orders_expire_by_time_then_id_and_not_in_a_call() {
    let mut fixture = SessionFixture::new();
    fixture.session(Phase::IntradayCall);
    let now = fixture.stamper.at.0;
    // Three orders expire at the same time, and the third one a second earlier.
    for until in [9_000_000_000, 9_000_000_000, 8_000_000_000, 9_000_000_000] {
        let at = VenueNanos(now + until);
        fixture.limit(Side::Buy, 1, 900, TimeInForce::GoodTillTime { at });
    }
    let [a, b, c, d] = [3, 2, 1, 0].map(|back| OrderId(fixture.order().0 - back));
    fixture.stamper.at = VenueNanos(now + 9_000_000_000);
    assert_eq!(ends(&fixture.run(Command::PassTime)), [], "a call has its uncross first");
    let events = fixture.session(Phase::Pause);
    assert_eq!(ends(&events), [], "a pause breaks the call off");
    let reached = CancelReason::TimeReached;
    assert_eq!(ends(&fixture.run(Command::PassTime)), [(c, reached), (a, reached), (b, reached), (d, reached)]);
    assert_eq!(fixture.run(Command::PassTime), []);
}

#[test]
fn gtc_age_counts_from_the_entry_day() {
    let mut fixture = SessionFixture::new();
    fixture.limit(Side::Buy, 1, 900, TimeInForce::GoodTillCancel);
    let first = fixture.order();
    let day = |n: u32| Command::BeginDay { day: VenueDay(TODAY.0 + n), closes: VenueNanos(u64::MAX) };
    fixture.run(day(1));
    fixture.limit(Side::Buy, 1, 901, TimeInForce::GoodTillCancel);
    let second = fixture.order();
    fixture.run(day(89));
    assert_eq!(ends(&fixture.run(Command::EndDay)), []);
    fixture.run(day(90));
    assert_eq!(ends(&fixture.run(Command::EndDay)), [(first, CancelReason::NinetyDays)]);
    fixture.run(day(91));
    assert_eq!(ends(&fixture.run(Command::EndDay)), [(second, CancelReason::NinetyDays)]);
}

/// Orders that were entered before the first venue day have no age, also after that day begins.
#[test]
fn orders_entered_before_the_first_day_do_not_age() {
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    for command in opening_commands(100, 100) {
        apply(&mut engine, &stamper.stamp(command));
    }
    let order = NewOrder {
        id: OrderId(1),
        instrument: NPN_ZAR,
        order_type: OrderType::Limit { price: Ticks(900) },
        lots: Lots(1),
        tif: TimeInForce::GoodTillCancel,
        ..NewOrder::PLAIN
    };
    apply(&mut engine, &stamper.stamp(Command::Enter(order)));
    apply(&mut engine, &stamper.stamp(Command::BeginDay { day: TODAY, closes: VenueNanos(u64::MAX) }));
    assert_eq!(ends(&apply(&mut engine, &stamper.stamp(Command::EndDay))), []);
    assert_eq!(engine.live_orders(), 1);
}

#[test]
fn missed_call_is_reported_and_not_held() {
    let mut fixture = SessionFixture::new();
    fixture.limit(Side::Buy, 5, 1_001, TimeInForce::IntradayCall);
    let parked = fixture.order();
    let missed = fixture.change(Phase::IntradayCall, SessionReason::Missed);
    assert!(matches!(
        missed[..],
        [Event::SessionChanged { reason: SessionReason::Missed, .. }, Event::BookChanged { .. }]
    ));
    assert_eq!(fixture.place(parked), Some(Some(UndisplayedState::Parked)));
    // Orders that arrive in the missed call rest as in a call. Its end has no uncross, so both
    // orders are still there at post close.
    fixture.limit(Side::Buy, 5, 1_001, TimeInForce::Day);
    fixture.limit(Side::Sell, 5, 1_000, TimeInForce::Day);
    let events = fixture.session(Phase::PostClose);
    assert_eq!(events.len(), 2, "SessionChanged and BookChanged: {events:?}");
    // No intraday call is left in the schedule, so a further order for it is refused.
    let refused = fixture.session(Phase::Continuous);
    assert!(refused.iter().any(|event| matches!(event, Event::Uncrossed { price: Ticks(1_000), .. })), "{refused:?}");
    assert_eq!(
        refusal(&fixture.limit(Side::Buy, 5, 1_001, TimeInForce::IntradayCall)),
        Some(Reject::NoAuctionScheduled)
    );
}

/// Tries every pair of sessions of section 16, by an operator and by the scheduler.
#[test]
fn session_changes_follow_section_16() {
    use Phase::{Closed, Continuous, Deleted, HaltAndClose, Halted, Pause, ReopeningCall, VolatilityCall};
    for from in Phase::ALL.into_iter().filter(|from| *from != Deleted) {
        for to in Phase::ALL {
            let mut fixture = SessionFixture::new();
            let set = fixture.change(from, SessionReason::Scheduled);
            assert_eq!(refusal(&set).is_some(), from == Continuous, "it opens in continuous trading");
            let by_operator = match to {
                Deleted => false,
                _ if to == from => false,
                Halted | HaltAndClose | Pause => from != Closed,
                ReopeningCall => [Halted, Pause].contains(&from),
                VolatilityCall => from == Continuous,
                _ => [Halted, HaltAndClose, Pause, VolatilityCall, ReopeningCall].contains(&from),
            };
            let refused = refusal(&fixture.change(to, SessionReason::Operator));
            assert_eq!(refused, (!by_operator).then_some(Reject::SessionNotAllowed), "{from:?} to {to:?}");
            let mut fixture = SessionFixture::new();
            fixture.change(from, SessionReason::Scheduled);
            let refused = refusal(&fixture.change(to, SessionReason::Scheduled));
            assert_eq!(refused.is_some(), to == from || to == Deleted, "{from:?} to {to:?}");
        }
    }
    let mut fixture = SessionFixture::new();
    let unknown = InstrumentId(77);
    let change = Command::ChangeSession {
        instrument: unknown,
        to: Halted,
        reason: SessionReason::Scheduled,
        due: VenueNanos(0),
        ends: None,
    };
    assert_eq!(refusal(&fixture.run(change)), Some(Reject::UnknownInstrument));
}

/// Orders for the interrupted call are cancelled when the next session begins.
#[test]
fn quarantine_in_a_call_defers_its_end() {
    let mut fixture = SessionFixture::new();
    fixture.session(Phase::IntradayCall);
    fixture.limit(Side::Buy, 5, 900, TimeInForce::IntradayCall);
    let for_the_call = fixture.order();
    fixture.limit(Side::Buy, 5, 901, TimeInForce::AnyCall);
    let for_any = fixture.order();
    let events = fixture.run(Command::Quarantine { seq: pitwire_model::Seq(1), instrument: Some(NPN_ZAR) });
    assert!(matches!(events[..], [Event::Quarantined { .. }, Event::PhaseChanged { phase: Phase::Halted, .. }]));
    assert_eq!(fixture.place(for_the_call), Some(None));
    let events = fixture.session(Phase::Continuous);
    assert_eq!(ends(&events), [(for_the_call, CancelReason::CallEnded)]);
    assert_eq!(fixture.place(for_any), Some(Some(UndisplayedState::Parked)));
}

/// An order that was parked keeps its priority by time of entry.
#[test]
fn injected_order_returns_to_its_place_in_time() {
    let mut fixture = SessionFixture::new();
    fixture.limit(Side::Buy, 1, 900, TimeInForce::AnyCall);
    let first = fixture.order();
    fixture.limit(Side::Buy, 1, 900, TimeInForce::Day);
    let second = fixture.order();
    fixture.session(Phase::IntradayCall);
    let queue = |fixture: &SessionFixture| -> Vec<OrderId> {
        fixture.engine.market(NPN_ZAR).expect("defined").book().orders(Side::Buy).map(|order| order.id).collect()
    };
    assert_eq!(queue(&fixture), [first, second]);
    fixture.session(Phase::Continuous);
    assert_eq!(queue(&fixture), [second]);
    fixture.session(Phase::ClosingCall);
    assert_eq!(queue(&fixture), [first, second]);
}
