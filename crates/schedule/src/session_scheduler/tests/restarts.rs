//! Rulebook 5.6: what passed while nobody was there.

use super::*;

/// Runs until `down`, is killed, and comes back at `up`: what it does before it serves.
fn back(name: &str, down: VenueNanos, up: VenueNanos) -> House {
    let mut house = House::fresh(&[name], on(0, "08:25"));
    house.run(down);
    house.hall.now = down;
    let mut house = house.restarted(up);
    house.run(up);
    house
}

#[test]
fn a_boundary_of_each_kind_is_told_once_as_missed() {
    for (down, up, expected) in [
        ("08:29", "08:31", vec!["opening_auction scheduled due 0 08:30:00"]),
        ("08:40", "09:01", vec!["continuous missed due 0 09:00:00"]),
        ("08:29", "09:01", vec!["opening_auction missed due 0 08:30:00", "continuous missed due 0 09:00:00"]),
        ("16:40", "16:52", vec!["closing_auction scheduled due 0 16:50:00"]),
        ("16:55", "17:01", vec!["closing_price_publication missed due 0 17:00:00"]),
        ("17:01", "17:06", vec!["closing_price_cross scheduled due 0 17:05:00"]),
        ("17:06", "17:12", vec!["post_close missed due 0 17:10:00"]),
        (
            "16:55",
            "17:20",
            vec![
                "closing_price_publication missed due 0 17:00:00",
                "closing_price_cross missed due 0 17:05:00",
                "post_close missed due 0 17:10:00",
            ],
        ),
        ("10:00", "12:00", vec!["intraday_auction scheduled due 0 12:00:00"]),
        ("11:00", "13:00", vec!["intraday_auction missed due 0 12:00:00", "continuous missed due 0 12:15:00"]),
        ("10:00", "11:00", vec![]),
    ] {
        let mut house = back("NOON", on(0, down), on(0, up));
        let expected: Vec<String> = expected.iter().map(|line| format!("0 {up}:00  NOON {line}")).collect();
        assert_eq!(house.said(), expected, "{down} to {up}");
        // Again at once: all of it is in the log.
        let mut again = house.restarted(on(0, up));
        again.run(on(0, up));
        assert_eq!(again.said(), Vec::<String>::new(), "{down} to {up}, twice");
        assert_eq!(again.hall.markets[0].remaining, again.scheduler.lanes[0].count());
    }
}

#[test]
fn a_day_that_ended_meanwhile_ends_once() {
    let mut house = back("MAIN", on(0, "17:30"), on(1, "07:30"));
    assert_eq!(
        house.said(),
        [
            "1 07:30:00  end of day",
            "1 07:30:00  day 1 until 1 18:15:00",
            "1 07:30:00  MAIN still has 1 continuous, 1 start_of_trading, 1 opening_auction, 1 closing_auction, \
         1 closing_price_publication, 1 closing_price_cross, 1 post_close",
            "1 07:30:00  MAIN start_of_trading missed due 1 07:00:00",
        ]
    );
    let mut again = house.restarted(on(1, "07:31"));
    again.run(on(1, "07:31"));
    assert_eq!(again.said(), Vec::<String>::new());
    // From a Friday's continuous trading to a Tuesday's.
    let mut house = House::fresh(&["MAIN"], on(4, "09:30"));
    house.run(on(4, "09:30"));
    let mut house = house.restarted(on(8, "09:30"));
    house.run(on(8, "09:30"));
    let said = house.said();
    assert_eq!(said.iter().filter(|line| line.contains("end of day")).count(), 4);
    assert_eq!(said.iter().filter(|line| line.contains(" missed ")).count(), 4 + 7 + 3);
    assert_eq!(said.last().unwrap(), "8 09:30:00  MAIN continuous missed due 8 09:00:00");
}

#[test]
fn a_crash_between_a_days_end_and_the_next_begins_it_and_does_not_end_it_twice() {
    let mut house = House::fresh(&["MAIN"], on(0, "17:30"));
    house.run(on(0, "17:30"));
    house.submit(on(0, "18:15"), Command::EndDay);
    let mut house = house.restarted(on(0, "18:20"));
    house.run(on(0, "18:20"));
    let said = house.said();
    assert_eq!(said[0], "0 18:20:00  day 1 until 1 18:15:00");
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn a_crash_in_the_midst_of_a_boundary_finishes_it() {
    let mut house = House::fresh(&["MAIN", "MAIN2", "CYCLE"], on(0, "16:49"));
    house.run(on(0, "16:49:59"));
    for _ in 0..1 {
        let (at, command) = house.scheduler.take(on(0, "16:50"), &house.hall).unwrap();
        house.submit(at, command);
    }
    house.said();
    let mut house = house.restarted(on(0, "16:50"));
    house.run(on(0, "16:50"));
    assert_eq!(house.said(), ["0 16:50:00  MAIN2 closing_auction scheduled due 0 16:50:00"]);
    // A cycle, whose counts are cut at 255: by the session it is in.
    let mut house = House::fresh(&["CYCLE", "CYCLE2"], on(1, "02:00:00"));
    house.run(on(1, "02:02:59"));
    let (at, command) = house.scheduler.take(on(1, "02:03"), &house.hall).unwrap();
    house.submit(at, command);
    let mut later = house.restarted(on(1, "02:05"));
    later.run(on(1, "02:05"));
    assert!(later.said().contains(&"1 02:05:00  CYCLE2 intraday_auction missed due 1 02:03:00".to_owned()));
    let mut house = house.restarted(on(1, "02:03"));
    house.run(on(1, "02:03"));
    assert!(house.said().contains(&"1 02:03:00  CYCLE2 intraday_auction scheduled due 1 02:03:00".to_owned()));
}

#[test]
fn volatility_calls_end_at_the_restart_or_are_absorbed() {
    let volatile = |down: &str, up: &str| {
        let mut house = House::fresh(&["NOON"], on(0, "08:25"));
        house.operate(on(0, down), Phase::VolatilityCall);
        let mut house = house.restarted(on(0, up));
        house.run(on(0, up));
        house.sessions()
    };
    assert_eq!(volatile("10:00", "10:30"), ["10:30:00 continuous missed"]);
    assert_eq!(volatile("10:00", "10:03"), Vec::<String>::new());
    assert_eq!(volatile("11:58", "12:01"), ["12:01:00 intraday_auction"]);
    assert_eq!(volatile("11:58", "12:20"), ["12:20:00 intraday_auction missed", "12:20:00 continuous missed"]);
    assert_eq!(
        volatile("11:50", "12:20"),
        ["12:20:00 continuous missed", "12:20:00 intraday_auction missed", "12:20:00 continuous missed"]
    );
}

#[test]
fn sessions_that_waited_behind_a_breach_still_wait_after_a_restart() {
    let mut house = House::fresh(&["MAIN"], on(0, "16:55"));
    house.run(on(0, "16:59"));
    house.hall.breaches = true;
    house.run(on(0, "17:02"));
    let mut house = house.restarted(on(0, "17:03"));
    house.run(on(0, "17:06"));
    assert_eq!(house.sessions(), ["17:05:00 closing_price_publication missed", "17:05:00 closing_price_cross"]);
}

#[test]
fn a_halt_goes_on_and_keeps_what_waits() {
    let mut house = House::fresh(&["NOON"], on(0, "08:25"));
    house.operate(on(0, "11:00"), Phase::Halted);
    let mut house = house.restarted(on(0, "13:00"));
    house.run(on(0, "13:00"));
    assert_eq!(
        house.said(),
        ["0 13:00:00  NOON still has 1 continuous, 1 closing_auction, 1 closing_price_publication, \
         1 closing_price_cross, 1 post_close"]
    );
    house.run(on(0, "17:02"));
    let mut house = house.restarted(on(0, "17:06"));
    house.resume(on(0, "17:07"));
    house.run(on(0, "17:08"));
    assert_eq!(house.sessions(), ["17:07:00 closing_price_publication operator", "17:07:00 closing_price_cross"]);
    let mut house = House::fresh(&["NOON"], on(0, "08:25"));
    house.operate(on(0, "11:00"), Phase::Halted);
    let mut house = house.restarted(on(1, "08:00"));
    house.run(on(1, "08:00"));
    assert_eq!(
        house.sessions(),
        ["08:00:00 closing_price_publication missed", "08:00:00 post_close missed", "08:00:00 start_of_trading missed"]
    );
}

#[test]
fn an_extended_call_is_still_extended_after_a_restart() {
    let mut house = House::fresh(&["MAIN"], on(0, "16:55"));
    house.run(on(0, "16:56"));
    house.submit(on(0, "16:56"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:04") });
    house.hall.now = on(0, "17:01");
    let mut house = house.restarted(on(0, "17:02"));
    house.run(on(0, "17:05"));
    assert_eq!(house.sessions(), ["17:04:00 closing_price_publication missed", "17:05:00 closing_price_cross"]);
}

#[test]
fn a_schedule_that_was_changed_takes_the_instrument_where_it_says() {
    let mut house = House::fresh(&["MAIN"], on(0, "08:25"));
    house.run(on(0, "12:05"));
    house.hall.now = on(0, "12:05");
    house.hall.markets[0].name = "NOON".into();
    let mut house = house.restarted(on(0, "12:06"));
    house.run(on(0, "12:06"));
    assert_eq!(house.sessions(), ["12:06:00 intraday_auction"]);
    house.hall.markets[0].name = "FOREVER".into();
    let mut house = house.restarted(on(0, "12:07"));
    house.run(on(0, "12:07"));
    assert_eq!(house.sessions(), ["12:07:00 continuous"]);
}

#[test]
fn restarts_at_every_minute_of_two_days_lead_to_the_same_place() {
    // Whatever the moments of death, each session of the schedule begins once.
    for step in [7_u64, 13, 61, 127, 400] {
        let mut house = House::fresh(&["NOON"], on(0, "06:00"));
        let mut sessions = Vec::new();
        let mut now = on(0, "06:00");
        while now < on(1, "20:00") {
            house.run(now);
            sessions.extend(house.sessions());
            now = VenueNanos(now.0 + step * 60 * SECOND);
            house = house.restarted(now);
        }
        house.run(now);
        sessions.extend(house.sessions());
        let names: Vec<&str> = sessions.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        let day = [
            "start_of_trading",
            "opening_auction",
            "continuous",
            "intraday_auction",
            "continuous",
            "closing_auction",
            "closing_price_publication",
            "closing_price_cross",
            "post_close",
        ];
        let mut expected = vec!["post_close"];
        expected.extend(day.iter().chain(&day));
        assert_eq!(names, expected, "every {step} minutes");
    }
}
