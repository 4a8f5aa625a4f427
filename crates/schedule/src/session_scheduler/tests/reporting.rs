//! ReportingHours of trade reporting, beside the sessions of the day (rulebook 23).

use super::*;

fn week(from: &'static str, until: &'static str) -> Week {
    Week { hours: Some([from, until]), ..Week::default() }
}

fn turns(house: &mut House) -> Vec<String> {
    house.said().into_iter().filter(|line| line.contains("reports")).collect()
}

/// As at the exchange: until 18:15, when its day ends and takes them along.
#[test]
fn hours_begin_each_trading_day_and_end_with_it() {
    let mut house = House::open(Hall::new(&["MAIN", "NOON"]), on(4, "07:00"), week("08:00", "18:15"));
    house.run(on(8, "12:00"));
    // Friday, then Monday and Tuesday; nothing on the weekend, and nothing for the schedule that has none.
    assert_eq!(
        turns(&mut house),
        [
            "4 08:00:00  MAIN reports scheduled due 4 08:00:00",
            "7 08:00:00  MAIN reports scheduled due 7 08:00:00",
            "8 08:00:00  MAIN reports scheduled due 8 08:00:00",
        ]
    );
}

#[test]
fn hours_that_end_before_the_day_end_by_a_word_of_their_own() {
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "07:00"), week("08:30", "17:00"));
    house.run(on(1, "08:30"));
    assert_eq!(
        turns(&mut house),
        [
            "0 08:30:00  MAIN reports scheduled due 0 08:30:00",
            "0 17:00:00  MAIN reports no more scheduled due 0 17:00:00",
            "1 08:30:00  MAIN reports scheduled due 1 08:30:00",
        ]
    );
}

/// At one instant the session comes first.
#[test]
fn sessions_go_before_hours() {
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "07:00"), week("08:30", "17:00"));
    house.run(on(0, "08:29"));
    house.said();
    house.run(on(0, "08:30"));
    assert_eq!(
        house.said(),
        [
            "0 08:30:00  MAIN opening_auction scheduled due 0 08:30:00",
            "0 08:30:00  MAIN reports scheduled due 0 08:30:00",
        ]
    );
}

/// A fresh venue begins in the midst of them, or after them.
#[test]
fn a_venue_that_begins_late_has_what_is_left() {
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "08:25"), week("08:00", "17:00"));
    house.run(on(0, "08:25"));
    assert_eq!(turns(&mut house), ["0 08:25:00  MAIN reports scheduled due 0 08:00:00"]);
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "17:30"), week("08:00", "17:00"));
    house.run(on(0, "17:30"));
    assert_eq!(turns(&mut house), Vec::<String>::new());
}

#[test]
fn a_restart_makes_up_for_each_turn_once() {
    for (down, up, expected) in [
        ("07:30", "07:45", vec![]),
        ("07:30", "08:10", vec!["reports scheduled due 0 08:00:00"]),
        ("07:30", "17:30", vec!["reports missed due 0 08:00:00", "reports no more missed due 0 17:00:00"]),
        ("08:10", "16:00", vec![]),
        ("16:00", "17:00", vec!["reports no more missed due 0 17:00:00"]),
        ("17:10", "17:30", vec![]),
    ] {
        let mut house = House::open(Hall::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
        house.run(on(0, down));
        house.hall.now = on(0, down);
        let mut house = house.restarted(on(0, up));
        house.run(on(0, up));
        let expected: Vec<String> = expected.iter().map(|line| format!("0 {up}:00  MAIN {line}")).collect();
        assert_eq!(turns(&mut house), expected, "{down} to {up}");
        let mut again = house.restarted(on(0, up));
        again.run(on(0, up));
        assert_eq!(again.said(), Vec::<String>::new(), "{down} to {up}, twice");
    }
}

/// Killed between two instruments of one instant: the other one follows, the first is not asked again.
#[test]
fn a_venue_killed_within_one_instant_finishes_it() {
    let mut house = House::open(Hall::new(&["MAIN-1", "MAIN-2"]), on(0, "07:00"), week("08:00", "17:00"));
    for (turn, line) in [("08:00", "reports"), ("17:00", "reports no more")] {
        house.run(VenueNanos(on(0, turn).0 - 1));
        house.said();
        // Whatever else is due then, up to the first of the two.
        while !house.hall.log.iter().any(|told| told.contains("MAIN-1 reports")) {
            let (at, command) = house.scheduler.take(on(0, turn), &house.hall).expect("two are due");
            house.submit(at, command);
        }
        house = house.restarted(on(0, turn));
        house.run(on(0, turn));
        let told = turns(&mut house);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("MAIN-2 {line} ")), "{told:?}");
    }
}

/// Another schedule, without hours, on a directory in which they run.
#[test]
fn hours_that_no_schedule_has_any_more_end() {
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
    house.run(on(0, "10:00"));
    house.week.hours = None;
    let mut house = house.restarted(on(0, "10:00"));
    house.run(on(0, "10:00"));
    assert_eq!(turns(&mut house), ["0 10:00:00  MAIN reports no more missed due 0 09:00:00"]);
}

#[test]
fn a_deleted_instrument_has_no_hours() {
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "07:00"), week("08:00", "17:00"));
    house.hall.markets[0].phase = Phase::Deleted;
    let mut house = house.restarted(on(0, "07:00"));
    house.run(on(1, "12:00"));
    assert_eq!(turns(&mut house), Vec::<String>::new());
}
