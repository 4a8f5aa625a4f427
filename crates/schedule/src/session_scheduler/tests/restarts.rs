//! Restarts: what passed while the venue did not run (rulebook 5.6).

use super::*;

/// Runs until `down`, kills the venue, and starts it at `up`.
fn back(name: &str, down: VenueNanos, up: VenueNanos) -> Fixture {
    let mut fixture = Fixture::fresh(&[name], on(0, "08:25"));
    fixture.run(down);
    fixture.engine.now = down;
    let mut fixture = fixture.restarted(up);
    fixture.run(up);
    fixture
}

#[test]
fn each_missed_boundary_is_reported_once() {
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
        let mut fixture = back("NOON", on(0, down), on(0, up));
        let expected: Vec<String> = expected.iter().map(|line| format!("0 {up}:00  NOON {line}")).collect();
        assert_eq!(fixture.log_lines(), expected, "{down} to {up}");
        // After a second restart nothing is left to do: the log has all of it.
        let mut again = fixture.restarted(on(0, up));
        again.run(on(0, up));
        assert_eq!(again.log_lines(), Vec::<String>::new(), "{down} to {up}, twice");
        assert_eq!(again.engine.markets[0].remaining, again.scheduler.entries[0].remaining());
    }
}

#[test]
fn day_that_ended_during_downtime_ends_once() {
    let mut fixture = back("MAIN", on(0, "17:30"), on(1, "07:30"));
    assert_eq!(
        fixture.log_lines(),
        [
            "1 07:30:00  end of day",
            "1 07:30:00  day 1 until 1 18:15:00",
            "1 07:30:00  MAIN still has 1 continuous, 1 start_of_trading, 1 opening_auction, 1 closing_auction, \
         1 closing_price_publication, 1 closing_price_cross, 1 post_close",
            "1 07:30:00  MAIN start_of_trading missed due 1 07:00:00",
        ]
    );
    let mut again = fixture.restarted(on(1, "07:31"));
    again.run(on(1, "07:31"));
    assert_eq!(again.log_lines(), Vec::<String>::new());
    // From continuous trading on a Friday to continuous trading on a Tuesday.
    let mut fixture = Fixture::fresh(&["MAIN"], on(4, "09:30"));
    fixture.run(on(4, "09:30"));
    let mut fixture = fixture.restarted(on(8, "09:30"));
    fixture.run(on(8, "09:30"));
    let lines = fixture.log_lines();
    assert_eq!(lines.iter().filter(|line| line.contains("end of day")).count(), 4);
    assert_eq!(lines.iter().filter(|line| line.contains(" missed ")).count(), 4 + 7 + 3);
    assert_eq!(lines.last().unwrap(), "8 09:30:00  MAIN continuous missed due 8 09:00:00");
}

#[test]
fn days_missed_long_ago_are_skipped() {
    let mut fixture = back("MAIN", on(0, "12:00"), on(400, "12:00"));
    let lines = fixture.log_lines();
    let days: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once("  day "))
        .filter_map(|(_, day)| day.split(' ').next())
        .collect();
    assert_eq!(days, (369..=400).map(|day| day.to_string()).collect::<Vec<_>>());
    assert_eq!(lines.iter().filter(|line| line.ends_with("end of day")).count(), days.len());
}

#[test]
fn crash_between_two_days_begins_the_next_and_ends_none_twice() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "17:30"));
    fixture.run(on(0, "17:30"));
    fixture.submit(on(0, "18:15"), Command::EndDay);
    let mut fixture = fixture.restarted(on(0, "18:20"));
    fixture.run(on(0, "18:20"));
    let lines = fixture.log_lines();
    assert_eq!(lines[0], "0 18:20:00  day 1 until 1 18:15:00");
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn crash_within_a_boundary_is_finished() {
    let mut fixture = Fixture::fresh(&["MAIN", "MAIN2", "CYCLE"], on(0, "16:49"));
    fixture.run(on(0, "16:49:59"));
    for _ in 0..1 {
        let (at, command) = fixture.scheduler.take(on(0, "16:50"), &fixture.engine).unwrap();
        fixture.submit(at, command);
    }
    fixture.log_lines();
    let mut fixture = fixture.restarted(on(0, "16:50"));
    fixture.run(on(0, "16:50"));
    assert_eq!(fixture.log_lines(), ["0 16:50:00  MAIN2 closing_auction scheduled due 0 16:50:00"]);
    // Counts above 255 are cut, so the position comes from the current session.
    let mut fixture = Fixture::fresh(&["CYCLE", "CYCLE2"], on(1, "02:00:00"));
    fixture.run(on(1, "02:02:59"));
    let (at, command) = fixture.scheduler.take(on(1, "02:03"), &fixture.engine).unwrap();
    fixture.submit(at, command);
    let mut later = fixture.restarted(on(1, "02:05"));
    later.run(on(1, "02:05"));
    assert!(later.log_lines().contains(&"1 02:05:00  CYCLE2 intraday_auction missed due 1 02:03:00".to_owned()));
    let mut fixture = fixture.restarted(on(1, "02:03"));
    fixture.run(on(1, "02:03"));
    assert!(fixture.log_lines().contains(&"1 02:03:00  CYCLE2 intraday_auction scheduled due 1 02:03:00".to_owned()));
}

#[test]
fn volatility_calls_end_at_the_restart_or_are_absorbed() {
    let volatile = |down: &str, up: &str| {
        let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
        fixture.operate(on(0, down), Phase::VolatilityCall);
        let mut fixture = fixture.restarted(on(0, up));
        fixture.run(on(0, up));
        fixture.sessions()
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
fn waiting_sessions_still_wait_after_a_restart() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:55"));
    fixture.run(on(0, "16:59"));
    fixture.engine.breaches = true;
    fixture.run(on(0, "17:02"));
    let mut fixture = fixture.restarted(on(0, "17:03"));
    fixture.run(on(0, "17:06"));
    assert_eq!(fixture.sessions(), ["17:05:00 closing_price_publication missed", "17:05:00 closing_price_cross"]);
}

#[test]
fn halt_continues_after_a_restart() {
    let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
    fixture.operate(on(0, "11:00"), Phase::Halted);
    let mut fixture = fixture.restarted(on(0, "13:00"));
    fixture.run(on(0, "13:00"));
    assert_eq!(
        fixture.log_lines(),
        ["0 13:00:00  NOON still has 1 continuous, 1 closing_auction, 1 closing_price_publication, \
         1 closing_price_cross, 1 post_close"]
    );
    fixture.run(on(0, "17:02"));
    let mut fixture = fixture.restarted(on(0, "17:06"));
    fixture.resume(on(0, "17:07"));
    fixture.run(on(0, "17:08"));
    assert_eq!(fixture.sessions(), ["17:07:00 closing_price_publication operator", "17:07:00 closing_price_cross"]);
    let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
    fixture.operate(on(0, "11:00"), Phase::Halted);
    let mut fixture = fixture.restarted(on(1, "08:00"));
    fixture.run(on(1, "08:00"));
    assert_eq!(
        fixture.sessions(),
        ["08:00:00 closing_price_publication missed", "08:00:00 post_close missed", "08:00:00 start_of_trading missed"]
    );
}

#[test]
fn extended_call_stays_extended_after_a_restart() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:55"));
    fixture.run(on(0, "16:56"));
    fixture.submit(on(0, "16:56"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:04") });
    fixture.engine.now = on(0, "17:01");
    let mut fixture = fixture.restarted(on(0, "17:02"));
    fixture.run(on(0, "17:05"));
    assert_eq!(fixture.sessions(), ["17:04:00 closing_price_publication missed", "17:05:00 closing_price_cross"]);
}

#[test]
fn changed_schedule_moves_the_instrument() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "08:25"));
    fixture.run(on(0, "12:05"));
    fixture.engine.now = on(0, "12:05");
    fixture.engine.markets[0].name = "NOON".into();
    let mut fixture = fixture.restarted(on(0, "12:06"));
    fixture.run(on(0, "12:06"));
    assert_eq!(fixture.sessions(), ["12:06:00 intraday_auction"]);
    fixture.engine.markets[0].name = "FOREVER".into();
    let mut fixture = fixture.restarted(on(0, "12:07"));
    fixture.run(on(0, "12:07"));
    assert_eq!(fixture.sessions(), ["12:07:00 continuous"]);
}

#[test]
fn restart_at_any_minute_leads_to_the_same_state() {
    // Wherever the venue is killed, each session of the schedule begins once.
    for step in [7_u64, 13, 61, 127, 400] {
        let mut fixture = Fixture::fresh(&["NOON"], on(0, "06:00"));
        let mut sessions = Vec::new();
        let mut now = on(0, "06:00");
        while now < on(1, "20:00") {
            fixture.run(now);
            sessions.extend(fixture.sessions());
            now = VenueNanos(now.0 + step * 60 * SECOND);
            fixture = fixture.restarted(now);
        }
        fixture.run(now);
        sessions.extend(fixture.sessions());
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
