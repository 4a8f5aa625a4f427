//! Trade reporting hours, which are independent of the sessions of the day (rulebook 23).

use super::*;

fn week(from: &'static str, until: &'static str) -> Week {
    Week { hours: Some([from, until]), ..Week::default() }
}

fn turns(fixture: &mut Fixture) -> Vec<String> {
    fixture.log_lines().into_iter().filter(|line| line.contains("reports")).collect()
}

/// As at the exchange: the hours last until 18:15, when the day ends.
#[test]
fn hours_begin_each_trading_day_and_end_with_it() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN", "NOON"]), on(4, "07:00"), week("08:00", "18:15"));
    fixture.run(on(8, "12:00"));
    // Friday, then Monday and Tuesday. Nothing happens on the weekend, nor for the schedule without
    // hours.
    assert_eq!(
        turns(&mut fixture),
        [
            "4 08:00:00  MAIN reports scheduled due 4 08:00:00",
            "7 08:00:00  MAIN reports scheduled due 7 08:00:00",
            "8 08:00:00  MAIN reports scheduled due 8 08:00:00",
        ]
    );
}

#[test]
fn hours_that_end_before_the_day_end_by_their_own_command() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "07:00"), week("08:30", "17:00"));
    fixture.run(on(1, "08:30"));
    assert_eq!(
        turns(&mut fixture),
        [
            "0 08:30:00  MAIN reports scheduled due 0 08:30:00",
            "0 17:00:00  MAIN reports no more scheduled due 0 17:00:00",
            "1 08:30:00  MAIN reports scheduled due 1 08:30:00",
        ]
    );
}

#[test]
fn sessions_change_before_hours_at_one_time() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "07:00"), week("08:30", "17:00"));
    fixture.run(on(0, "08:29"));
    fixture.log_lines();
    fixture.run(on(0, "08:30"));
    assert_eq!(
        fixture.log_lines(),
        [
            "0 08:30:00  MAIN opening_auction scheduled due 0 08:30:00",
            "0 08:30:00  MAIN reports scheduled due 0 08:30:00",
        ]
    );
}

/// A fresh venue starts within the hours, or after them.
#[test]
fn late_start_gets_the_remaining_hours() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "08:25"), week("08:00", "17:00"));
    fixture.run(on(0, "08:25"));
    assert_eq!(turns(&mut fixture), ["0 08:25:00  MAIN reports scheduled due 0 08:00:00"]);
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "17:30"), week("08:00", "17:00"));
    fixture.run(on(0, "17:30"));
    assert_eq!(turns(&mut fixture), Vec::<String>::new());
}

#[test]
fn restart_repeats_each_missed_change_once() {
    for (down, up, expected) in [
        ("07:30", "07:45", vec![]),
        ("07:30", "08:10", vec!["reports scheduled due 0 08:00:00"]),
        ("07:30", "17:30", vec!["reports missed due 0 08:00:00", "reports no more missed due 0 17:00:00"]),
        ("08:10", "16:00", vec![]),
        ("16:00", "17:00", vec!["reports no more missed due 0 17:00:00"]),
        ("17:10", "17:30", vec![]),
    ] {
        let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
        fixture.run(on(0, down));
        fixture.engine.now = on(0, down);
        let mut fixture = fixture.restarted(on(0, up));
        fixture.run(on(0, up));
        let expected: Vec<String> = expected.iter().map(|line| format!("0 {up}:00  MAIN {line}")).collect();
        assert_eq!(turns(&mut fixture), expected, "{down} to {up}");
        let mut again = fixture.restarted(on(0, up));
        again.run(on(0, up));
        assert_eq!(again.log_lines(), Vec::<String>::new(), "{down} to {up}, twice");
    }
}

/// The venue is killed between two instruments at one time. The second follows, and the first is
/// not repeated.
#[test]
fn restart_finishes_the_changes_of_one_time() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN-1", "MAIN-2"]), on(0, "07:00"), week("08:00", "17:00"));
    for (turn, line) in [("08:00", "reports"), ("17:00", "reports no more")] {
        fixture.run(VenueNanos(on(0, turn).0 - 1));
        fixture.log_lines();
        // Runs whatever else is due then, up to the first of the two.
        while !fixture.engine.log.iter().any(|outcome| outcome.contains("MAIN-1 reports")) {
            let (at, command) = fixture.scheduler.take(on(0, turn), &fixture.engine).expect("two are due");
            fixture.submit(at, command);
        }
        fixture = fixture.restarted(on(0, turn));
        fixture.run(on(0, turn));
        let outcome = turns(&mut fixture);
        assert_eq!(outcome.len(), 1, "{outcome:?}");
        assert!(outcome[0].contains(&format!("MAIN-2 {line} ")), "{outcome:?}");
    }
}

/// A schedule without hours replaces one whose hours are open.
#[test]
fn hours_without_a_schedule_end() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
    fixture.run(on(0, "10:00"));
    fixture.week.hours = None;
    let mut fixture = fixture.restarted(on(0, "10:00"));
    fixture.run(on(0, "10:00"));
    assert_eq!(turns(&mut fixture), ["0 10:00:00  MAIN reports no more missed due 0 09:00:00"]);
}

#[test]
fn deleted_instrument_has_no_hours() {
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
    fixture.engine.markets[0].phase = Phase::Deleted;
    let mut fixture = fixture.restarted(on(0, "07:00"));
    fixture.run(on(1, "12:00"));
    assert_eq!(turns(&mut fixture), Vec::<String>::new());
}
