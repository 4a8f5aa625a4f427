//! Expiries by time, and checks of the schedule.

use super::*;

/// One order of each time in force that expires at the end of the day, at a time, or after ninety
/// days.
fn living() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    stage.rest(NewOrder { tif: TimeInForce::GoodTillDate { day: TODAY }, ..order(10, A, Buy, 90, 1) });
    stage.rest(NewOrder { tif: TimeInForce::GoodTillCancel, ..order(11, A, Buy, 91, 1) });
    stage.rest(order(12, A, Buy, 92, 1));
    let at = VenueNanos(stage.now() + 60 * SECOND);
    stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(13, A, Buy, 93, 1) });
    let waits = NewOrder { tif: TimeInForce::AnyCall, ..order(14, A, Buy, 94, 1) };
    stage.enter("", waits, vec![parked(14, A, 1)]);
    stage.say("before", Command::PassTime, vec![]);
    stage.pass(100);
    let due = vec![cancelled(13, A, Buy, 93, 1, CancelReason::TimeReached), level(Buy, 93, 0)];
    stage.add("time", Command::PassTime, due);
    let ended = vec![
        cancelled(10, A, Buy, 90, 1, CancelReason::DateReached),
        level(Buy, 90, 0),
        cancelled(12, A, Buy, 92, 1, CancelReason::DayEnded),
        level(Buy, 92, 0),
    ];
    stage.add("day", Command::EndDay, ended);
    if let Some((_, _, events)) = stage.steps.last_mut() {
        events.push(Event::DayEnded);
    }
    let (day, closes) = (VenueDay(TODAY.0 + 89), VenueNanos(200_000 * SECOND));
    stage.say("", Command::BeginDay { day, closes }, vec![Event::DayBegun { day }]);
    stage.say("eighty-nine", Command::EndDay, vec![Event::DayEnded]);
    let day = VenueDay(TODAY.0 + 90);
    stage.say("", Command::BeginDay { day, closes }, vec![Event::DayBegun { day }]);
    let old = vec![cancelled(11, A, Buy, 91, 1, CancelReason::NinetyDays), level(Buy, 91, 0)];
    stage.add("ninety", Command::EndDay, old);
    if let Some((_, _, events)) = stage.steps.last_mut() {
        events.push(Event::DayEnded);
    }
    stage
}

#[test]
fn orders_expire_exactly_when_due() {
    judge(
        living,
        &[
            ("a time missed", "time", Vec::clear, M5, "order 13 must be cancelled"),
            (
                "a time too early",
                "before",
                |all| all.push(cancelled(13, A, Buy, 93, 1, CancelReason::TimeReached)),
                M4,
                "does not belong",
            ),
            ("a time for a day", "time", |all| for_reason(&mut all[0], CancelReason::DayEnded), M5, "is TimeReached"),
            ("a date missed", "day", |all| _ = all.drain(0..2), M5, "order 10 must be cancelled"),
            ("a day for a date", "day", |all| for_reason(&mut all[0], CancelReason::DayEnded), M5, "is DateReached"),
            ("a day order that stays", "day", |all| _ = all.drain(2..4), M5, "order 12 must be cancelled"),
            (
                "an order for all calls that goes with the day",
                "day",
                |all| all.insert(4, cancelled(14, A, Buy, 94, 1, CancelReason::DayEnded)),
                M4,
                "does not belong",
            ),
            (
                "ninety days after eighty-nine",
                "eighty-nine",
                |all| all.insert(0, cancelled(11, A, Buy, 91, 1, CancelReason::NinetyDays)),
                M5,
                "the end of this day does not expire it",
            ),
            ("ninety days missed", "ninety", |all| _ = all.drain(0..3), M5, "order 11 must be cancelled"),
            ("a day that does not end", "ninety", |all| _ = all.pop(), M5, "the day must end, but did not"),
        ],
    );
}

/// Faults of the schedule in a correct engine.
#[test]
fn schedule_is_checked_on_request() {
    let punctual = |run: &[Step]| {
        let mut auditor = Auditor::new().with_schedule_checks();
        run.iter().try_for_each(|(_, stamped, events)| auditor.observe(stamped, events))
    };
    let open = || Stage::open(TradingRules::default());
    // The builder opens a closed market while an opening call is still scheduled.
    let offence = punctual(&open().steps).expect_err("no opening call");
    assert!(offence.promise == M8 && offence.sentence.contains("opening call is still to come"), "{offence}");

    let after = |then: fn(&mut Stage)| {
        let mut stage = open();
        let opened = stage.steps.len();
        then(&mut stage);
        let mut auditor = Auditor::new();
        for (_, stamped, events) in &stage.steps[..opened] {
            auditor.observe(stamped, events).expect("an honest engine");
        }
        let mut auditor = auditor.with_schedule_checks();
        stage.steps[opened..].iter().try_for_each(|(_, stamped, events)| auditor.observe(stamped, events))
    };
    let kept = after(|stage| {
        let at = VenueNanos(stage.now() + 60 * SECOND);
        stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(10, A, Buy, 93, 1) });
        stage.pass(100);
        let due = vec![cancelled(10, A, Buy, 93, 1, CancelReason::TimeReached), level(Buy, 93, 0)];
        stage.add("", Command::PassTime, due);
        stage.rest(order(11, A, Buy, 94, 1));
    });
    assert_eq!(kept, Ok(()));
    let forgotten = after(|stage| {
        let at = VenueNanos(stage.now() + 60 * SECOND);
        stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(10, A, Buy, 93, 1) });
        stage.pass(100);
        stage.rest(order(11, A, Buy, 94, 1));
    });
    let offence = forgotten.expect_err("an unreported expiry");
    assert!(offence.promise == M5 && offence.sentence.contains("order 10 was good till"), "{offence}");

    let early = after(|stage| {
        stage.session("", Phase::IntradayCall, vec![], vec![]);
        let (instrument, ends, phase) = (MARKET, VenueNanos(stage.now() + 60 * SECOND), Phase::IntradayCall);
        let reason = SessionReason::Extended;
        let moved = Event::SessionChanged { instrument, from: phase, to: phase, reason, ends: Some(ends) };
        stage.add("", Command::ExtendSession { instrument, ends }, vec![moved]);
        stage.session("", Phase::Continuous, vec![], vec![]);
    });
    let offence = early.expect_err("a call left before its end");
    assert!(offence.promise == M8 && offence.sentence.contains("intraday_auction of instrument 0 ended"), "{offence}");
}
