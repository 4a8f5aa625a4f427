//! Tests of the schedule compiler.

use jiff::Timestamp;
use jiff::civil::Date;
use pitwire_model::{VenueDay, VenueNanos};
use pitwire_schedule::{Calendar, RandomEnds, VenueCalendar};

use crate::{PresetName, Setup};

fn setup(text: &str) -> Setup {
    let mut setup = crate::file::parse_setup(text).unwrap();
    setup.file = Some("venue.toml".into());
    setup
}

fn calendar(text: &str) -> VenueCalendar {
    setup(text).calendar(RandomEnds::from_seed(1)).unwrap_or_else(|failure| panic!("{failure}"))
}

fn complaint(text: &str) -> String {
    match setup(text).calendar(RandomEnds::from_seed(1)) {
        Ok(_) => "nothing".into(),
        Err(failure) => failure.to_string(),
    }
}

fn day(date: &str) -> VenueDay {
    let since = date.parse::<Date>().unwrap().duration_since(Date::constant(1970, 1, 1));
    VenueDay(u32::try_from(since.as_hours() / 24).unwrap())
}

fn utc(at: VenueNanos) -> String {
    Timestamp::from_nanosecond(i128::from(at.0)).unwrap().to_string()
}

fn at(utc: &str) -> VenueNanos {
    VenueNanos(u64::try_from(utc.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap())
}

/// Returns the boundaries of a day, in UTC.
fn held(calendar: &VenueCalendar, date: &str) -> Vec<String> {
    let boundaries = calendar.boundaries(0, day(date));
    boundaries.iter().map(|boundary| format!("{} {}", utc(boundary.at), boundary.to.name())).collect()
}

const MAIN: &str = r#"
[calendar]
time_zone = "Africa/Johannesburg"
day_ends = "18:15"
trading_days = ["mon", "tue", "wed", "thu", "fri"]
holidays = ["2026-03-20"]
half_days = ["2026-03-19"]

[[schedule]]
name = "main"
sessions = [
    { session = "start_of_trading", from = "07:00" },
    { session = "opening_auction", from = "08:30", until = "09:00", random_end = "30s" },
    { session = "continuous", from = "09:00", until = "17:00" },
    { session = "post_close", from = "17:00", until = "18:15" },
]
half_day = [
    { session = "opening_auction", from = "08:30" },
    { session = "continuous", from = "09:00" },
    { session = "post_close", from = "12:00" },
]
"#;

#[test]
fn johannesburg_days_have_the_defined_sessions() {
    let calendar = calendar(MAIN);
    assert_eq!(
        held(&calendar, "2026-03-18"),
        [
            "2026-03-18T05:00:00Z start_of_trading",
            "2026-03-18T06:30:00Z opening_auction",
            "2026-03-18T07:00:00Z continuous",
            "2026-03-18T15:00:00Z post_close"
        ]
    );
    assert_eq!(
        held(&calendar, "2026-03-19"),
        ["2026-03-19T06:30:00Z opening_auction", "2026-03-19T07:00:00Z continuous", "2026-03-19T10:00:00Z post_close"]
    );
    for closed in ["2026-03-20", "2026-03-21", "2026-03-22"] {
        assert_eq!(held(&calendar, closed), Vec::<String>::new(), "{closed}");
    }
    let spreads: Vec<u64> = calendar.boundaries(0, day("2026-03-18")).iter().map(|b| b.spread_ns).collect();
    assert_eq!(spreads, [0, 0, 30_000_000_000, 0], "a random end moves the boundary after it");
    assert_eq!(utc(calendar.closes(day("2026-03-18"))), "2026-03-18T16:15:00Z");
    assert_eq!(calendar.day_of(at("2026-03-18T16:14:59.999999999Z")), day("2026-03-18"));
    assert_eq!(calendar.day_of(at("2026-03-18T16:15:00Z")), day("2026-03-19"));
    assert_eq!(calendar.day_of(at("2026-03-18T22:30:00Z")), day("2026-03-19"));
}

#[test]
fn sessions_follow_clock_changes() {
    let calendar = calendar(
        r#"
[calendar]
time_zone = "Europe/London"
[[schedule]]
name = "main"
sessions = [{ session = "opening_auction", from = "01:30" }, { session = "continuous", from = "08:00" }]
"#,
    );
    // Counted by hand: London is UTC in winter and one hour ahead in summer. 01:30 on 29 March does
    // not exist and counts as 02:30, which is 01:30 UTC. On 25 October 01:30 comes twice, and the
    // first one is 00:30 UTC.
    for (date, opening, continuous) in [
        ("2026-03-28", "01:30", "08:00"),
        ("2026-03-29", "01:30", "07:00"),
        ("2026-03-30", "00:30", "07:00"),
        ("2026-10-24", "00:30", "07:00"),
        ("2026-10-25", "00:30", "08:00"),
        ("2026-10-26", "01:30", "08:00"),
    ] {
        assert_eq!(
            held(&calendar, date),
            [format!("{date}T{opening}:00Z opening_auction"), format!("{date}T{continuous}:00Z continuous")]
        );
    }
    let lengths = ["2026-03-28", "2026-03-29", "2026-10-25"].map(|date| {
        let day = day(date);
        (calendar.closes(day).0 - calendar.closes(VenueDay(day.0 - 1)).0) / 3_600_000_000_000
    });
    assert_eq!(lengths, [24, 23, 25]);
    for hour in 0..24 * 400 {
        let now = VenueNanos(at("2026-01-01T00:10:00Z").0 + hour * 3_600_000_000_000);
        let day = calendar.day_of(now);
        assert!(calendar.closes(VenueDay(day.0 - 1)) <= now && now < calendar.closes(day), "{}", utc(now));
    }
}

#[test]
fn cron_session_interrupts_continuous_trading_or_replaces_it() {
    let cycle = calendar(
        r#"
[[schedule]]
name = "cycle"
sessions = [{ session = "intraday_auction", cron = "0 */3 * * * *", lasts = "30s", random_end = "5s" }]
"#,
    );
    let boundaries = cycle.boundaries(0, day("2026-01-05"));
    assert_eq!(boundaries.len(), 960);
    assert_eq!(
        held(&cycle, "2026-01-05")[..3],
        [
            "2026-01-05T00:00:00Z intraday_auction",
            "2026-01-05T00:00:30Z continuous",
            "2026-01-05T00:03:00Z intraday_auction"
        ]
    );
    assert_eq!(boundaries.iter().map(|boundary| boundary.spread_ns).max(), Some(5_000_000_000));
    // Only inside continuous trading: the call of 16:45 would not end by 17:00, and the opening
    // call cannot be interrupted.
    let inside = calendar(
        r#"
[[schedule]]
name = "main"
sessions = [
    { session = "opening_auction", from = "08:30" },
    { session = "continuous", from = "09:00" },
    { session = "intraday_auction", cron = "0 45 8,12,16 * * *", lasts = "20m" },
    { session = "post_close", from = "17:00" },
]
"#,
    );
    assert_eq!(
        held(&inside, "2026-01-05"),
        [
            "2026-01-05T08:30:00Z opening_auction",
            "2026-01-05T09:00:00Z continuous",
            "2026-01-05T12:45:00Z intraday_auction",
            "2026-01-05T13:05:00Z continuous",
            "2026-01-05T17:00:00Z post_close"
        ]
    );
    // Every session begins by an expression.
    let all = calendar(
        r#"
[[schedule]]
name = "main"
sessions = [
    { session = "opening_auction", cron = "0 30 8 * * MON-FRI" },
    { session = "continuous", cron = "0 0 9 * * MON-FRI" },
    { session = "post_close", cron = "0 0 17 * * *" },
]
"#,
    );
    assert_eq!(held(&all, "2026-01-05").len(), 3);
    assert_eq!(held(&all, "2026-01-04"), ["2026-01-04T17:00:00Z post_close"], "a Sunday");
}

#[test]
fn days_beyond_the_representable_time_close_at_its_end() {
    let cycle = calendar(
        r#"
[[schedule]]
name = "cycle"
sessions = [{ session = "intraday_auction", cron = "0 0 */6 * * *", lasts = "24h" }]
"#,
    );
    // 21 July 2554 is the last day with an end: the nanosecond count overflows at 23:34:33 on that
    // day.
    assert_eq!(cycle.closes(day("2554-07-20")), at("2554-07-21T00:00:00Z"));
    for beyond in ["2554-07-21", "2900-01-01"] {
        assert_eq!(cycle.closes(day(beyond)), VenueNanos(u64::MAX), "{beyond}");
    }
    cycle.boundaries(0, day("2554-07-21"));
}

#[test]
fn evening_session_belongs_to_the_next_venue_day() {
    let calendar = calendar(
        r#"
[calendar]
day_ends = "17:00"
[[schedule]]
name = "futures"
sessions = [{ session = "continuous", from = "18:00" }, { session = "closing_auction", from = "16:30" }]
"#,
    );
    assert_eq!(
        held(&calendar, "2026-01-06"),
        ["2026-01-05T18:00:00Z continuous", "2026-01-06T16:30:00Z closing_auction"]
    );
}

#[test]
fn venue_time_starts_on_a_trading_day_and_unfinished_days_continue() {
    let calendar = calendar(MAIN);
    let start = |wall: &str, last: &str| {
        let last_seen = if last.is_empty() { VenueNanos::ZERO } else { at(last) };
        utc(calendar.starting(at(wall), last_seen, 8 * 3600 + 25 * 60))
    };
    assert_eq!(start("2026-03-18T12:00:00Z", ""), "2026-03-18T06:25:00Z");
    assert_eq!(start("2026-03-18T01:00:00Z", ""), "2026-03-18T06:25:00Z");
    assert_eq!(start("2026-03-18T20:00:00Z", ""), "2026-03-18T06:25:00Z", "whenever it is launched");
    assert_eq!(start("2026-03-20T12:00:00Z", ""), "2026-03-23T06:25:00Z", "a holiday, then a weekend");
    assert_eq!(start("2026-03-18T12:00:00Z", "2026-03-18T09:00:00Z"), "2026-03-18T09:00:00Z");
    assert_eq!(start("2026-03-18T12:00:00Z", "2026-03-18T15:30:00Z"), "2026-03-19T06:25:00Z", "that day is over");
    assert_eq!(start("2026-03-18T12:00:00Z", "2026-05-04T09:00:00Z"), "2026-05-04T09:00:00Z", "run at speed");
}

fn sessions(lines: &str) -> String {
    format!("[[schedule]]\nname = \"main\"\nsessions = [\n{lines}\n]\n")
}

#[test]
fn invalid_definition_is_refused_with_file_line_rule_and_remedy() {
    let one = r#"{ session = "continuous", from = "09:00" },"#;
    for (text, place, rule, says) in [
        (sessions(&format!("{one}\n{{ session = \"opening_auction\", from = \"08:30\" }}")), 5, "order", "not after"),
        (sessions(&format!("{one}\n{{ session = \"closing_auction\", from = \"09:00\" }}")), 5, "order", "not after"),
        (
            sessions("{ session = \"opening_auction\", from = \"08:30\", until = \"08:50\" },\n{ session = \"continuous\", from = \"09:00\" }"),
            5,
            "gap",
            "nothing runs between 08:50",
        ),
        (
            sessions("{ session = \"opening_auction\", from = \"08:30\", until = \"09:10\" },\n{ session = \"continuous\", from = \"09:00\" }"),
            5,
            "overlap",
            "ends at 09:10, but continuous begins at 09:00",
        ),
        (sessions("{ session = \"lunch\", from = \"12:00\" }"), 4, "session", "is no session"),
        (sessions("{ session = \"halt\", from = \"12:00\" }"), 4, "session", "by an operator or a price"),
        (sessions("{ session = \"continuous\", from = \"25:00\" }"), 4, "time", "no time of day"),
        (sessions("{ session = \"continuous\", from = \"9:00\" }"), 4, "time", "no time of day"),
        (sessions("{ session = \"continuous\" }"), 4, "time", "does not say when"),
        (sessions("{ session = \"continuous\", from = \"24:00\" }"), 4, "time", "24:00"),
        (sessions(""), 1, "session", "has no sessions"),
        (sessions(&format!("{one}\n{{ session = \"continuous\", from = \"10:00\" }}")), 5, "session", "follows itself"),
        (sessions("{ session = \"continuous\", from = \"10:00\", until = \"09:00\" }"), 4, "order", "before it begins"),
        (sessions("{ session = \"continuous\", cron = \"0 99 * * * *\" }"), 4, "cron", "cannot be read"),
        (sessions("{ session = \"continuous\", cron = \"0 0 9 30 2 *\" }"), 4, "cron-never", "never comes"),
        (sessions(&format!("{one}\n{{ session = \"intraday_auction\", cron = \"0 0 8 * * *\", lasts = \"5m\" }}")), 5, "overlap", "never finds continuous"),
        (sessions("{ session = \"continuous\", cron = \"0 0 9 * * *\", lasts = \"1m\" }"), 4, "cron", "only a call"),
        (sessions("{ session = \"continuous\", from = \"09:00\", cron = \"0 0 9 * * *\" }"), 4, "cron", "beside from"),
        (sessions("{ session = \"continuous\", from = \"09:00\", random_end = \"30s\" }"), 4, "random-end", "only a call"),
        (sessions("{ session = \"intraday_auction\", from = \"09:00\", random_end = \"soon\" }"), 4, "time", "no length"),
        (
            sessions("{ session = \"opening_auction\", from = \"08:30\", random_end = \"5m\" },\n{ session = \"continuous\", from = \"09:00\" },\n{ session = \"post_close\", from = \"09:05\" }"),
            4,
            "random-end",
            "may swallow",
        ),
        (sessions(&format!("{one}\n{NOON},\n{{ session = \"post_close\", from = \"17:00\" }}")), 5, "random-end", "may swallow continuous"),
        (
            sessions(&format!("{one}\n{{ session = \"intraday_auction\", cron = \"0 0 16 * * *\", lasts = \"1h\", random_end = \"10m\" }},\n{{ session = \"closing_auction\", from = \"17:00\" }},\n{{ session = \"post_close\", from = \"17:05\" }}")),
            5,
            "random-end",
            "may swallow closing_auction",
        ),
        (
            sessions("{ session = \"intraday_auction\", cron = \"0 */3 * * * *\", lasts = \"30s\", random_end = \"150s\" },"),
            4,
            "random-end",
            "may swallow continuous",
        ),
        ("\n[calendar]\ntime_zone = \"Mars/Olympus\"\n".into(), 2, "zone", "no time zone"),
        ("[calendar]\nday_ends = \"noon\"\n".into(), 1, "time", "no time of day"),
        ("[calendar]\ntrading_days = [\"monday\"]\n".into(), 1, "day", "is no day"),
        ("[calendar]\nholidays = [\"2026-02-30\"]\n".into(), 1, "date", "is no date"),
        ("[calendar]\nholidays = [\"2026-12-25\", \"2026-12-25\"]\n".into(), 1, "date", "twice"),
        ("[calendar]\nholidays = [\"2026-12-25\"]\nhalf_days = [\"2026-12-25\"]\n".into(), 1, "half-day", "is a holiday"),
        (MAIN.replace("half_day = [", "half_day = [ ]\n#"), 0, "", ""),
        ("[[segment]]\nname = \"A\"\nschedule = \"main\"\n".into(), 1, "schedule", "which is not there"),
        ("[[segment]]\nname = \"A\"\n[[segment]]\nname = \"A\"\n".into(), 3, "segment", "two segments"),
        (sessions(one) + &sessions(one), 6, "schedule", "two schedules"),
        (
            "\n[[instrument]]\nname = \"X\"\nbase = \"X\"\nquote = \"Y\"\ntick = \"1\"\nlot = \"1\"\nstart_price = \"1\"\nsegment = \"Z\"\n".into(),
            2,
            "segment",
            "belongs to segment \"Z\"",
        ),
    ] {
        if rule.is_empty() {
            continue;
        }
        let message = complaint(&text);
        assert!(message.starts_with(&format!("venue.toml:{place}: ")), "{message}\n{text}");
        assert!(message.contains(&format!("[rule: {rule}]")) && message.contains(says), "{message}\n{text}");
        assert!(message.ends_with(')'), "no remedy: {message}");
    }
}

/// A call that could last into the night.
const NOON: &str = r#"{ session = "intraday_auction", cron = "0 0 12 * * *", lasts = "15m", random_end = "24h" }"#;

#[test]
fn half_day_calls_are_checked() {
    let with = |call: &str| {
        MAIN.replace(
            "    { session = \"post_close\", from = \"12:00\" },",
            &format!("{call},\n    {{ session = \"post_close\", from = \"12:00\" }},"),
        )
    };
    let call = |cron: &str, more: &str| {
        with(&format!("    {{ session = \"intraday_auction\", cron = \"{cron}\", lasts = \"15m\"{more} }}"))
    };
    let at_ten = calendar(&call("0 0 10 * * *", ", random_end = \"30s\""));
    assert_eq!(held(&at_ten, "2026-03-19").len(), 5);
    assert_eq!(held(&at_ten, "2026-03-18").len(), 4);
    for (text, rule, says) in [
        (call("0 0 10 * * *", ", random_end = \"2h\""), "random-end", "may swallow continuous after it"),
        (call("0 55 11 * * *", ""), "overlap", "never finds continuous"),
        (call("0 0 10 * * MON", ""), "cron-never", "never comes on a half day"),
    ] {
        let message = complaint(&text);
        assert!(message.starts_with("venue.toml:20: ") && message.contains(&format!("[rule: {rule}]")), "{message}");
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn random_end_never_uses_up_the_next_session() {
    // London's clocks go from 01:00 to 02:00 on 29 March, so nothing is left of the hour from 01:00
    // on.
    let calendar = calendar(
        r#"
[calendar]
time_zone = "Europe/London"
[[schedule]]
name = "night"
sessions = [
    { session = "opening_auction", from = "00:30", random_end = "50m" },
    { session = "continuous", from = "00:50" },
    { session = "post_close", from = "02:00" },
]
"#,
    );
    let spreads = |date: &str| -> Vec<u64> {
        calendar.boundaries(0, day(date)).iter().map(|boundary| boundary.spread_ns / 1_000_000_000).collect()
    };
    assert_eq!(spreads("2026-03-28"), [0, 3000, 0]);
    assert_eq!(spreads("2026-03-29"), [0, 599, 0], "ten minutes are left, but for a nanosecond");
}

#[test]
fn half_days_need_a_list_in_every_followed_schedule() {
    let instrument = "[[instrument]]\nname = \"X\"\nbase = \"X\"\nquote = \"Y\"\ntick = \"1\"\nlot = \"1\"\nstart_price = \"1\"\nschedule = \"main\"\n";
    let cut = MAIN.split("half_day = [").next().unwrap().to_owned();
    assert_eq!(complaint(&cut), "nothing", "no instrument uses it");
    assert!(complaint(&(cut + instrument)).contains("venue.toml:9: the calendar has half days"));
}

#[test]
fn half_days_work_with_every_preset() {
    for name in [PresetName::Demo, PresetName::Jse, PresetName::Crypto] {
        let mut setup = name.preset().setup;
        setup.calendar.get_or_insert_default().half_days.push("2026-03-19".into());
        setup.calendar(RandomEnds::from_seed(1)).unwrap_or_else(|failure| panic!("{}: {failure}", name.preset().name));
    }
}

#[test]
fn presets_compile() {
    for name in [PresetName::Demo, PresetName::Jse, PresetName::Crypto] {
        let preset = name.preset();
        let calendar = preset.setup.calendar(RandomEnds::from_seed(1)).unwrap_or_else(|failure| panic!("{failure}"));
        let scheduled = calendar.followers.len();
        assert_eq!(
            scheduled,
            match name {
                PresetName::Demo => 1,
                PresetName::Jse => 12,
                PresetName::Crypto => 0,
            }
        );
    }
    let jse = PresetName::Jse.preset().setup.calendar(RandomEnds::from_seed(1)).unwrap();
    let noon = jse.boundaries(1, day("2026-01-05"));
    assert_eq!(noon.len(), 9);
    assert_eq!(utc(noon[3].at), "2026-01-05T10:00:00Z");
    assert_eq!(
        jse.boundaries(0, day("2026-12-24")).last().map(|last| utc(last.at)).as_deref(),
        Some("2026-12-24T10:10:00Z")
    );
    assert!(jse.boundaries(0, day("2026-12-25")).is_empty());
}

fn with_hours(hours: &str) -> String {
    MAIN.replace("name = \"main\"\n", &format!("name = \"main\"\ntrade_reporting = {hours}\n"))
}

/// Johannesburg is two hours ahead of UTC, and its venue day ends at 18:15.
#[test]
fn trade_reporting_has_hours_on_every_trading_day() {
    let hours = |text: &str, date: &str| {
        let hours = calendar(&with_hours(text)).reporting(0, day(date));
        hours.map(|(from, until)| (utc(from), utc(until)))
    };
    let outcome = |from: &str, until: &str| Some((format!("2026-03-{from}:00Z"), format!("2026-03-{until}:00Z")));
    let all_day = r#"{ from = "08:00", until = "18:15" }"#;
    assert_eq!(hours(all_day, "2026-03-18"), outcome("18T06:00", "18T16:15"));
    assert_eq!(hours(all_day, "2026-03-19"), outcome("19T06:00", "19T16:15"), "a half day too");
    assert_eq!(hours(all_day, "2026-03-20"), None, "a holiday");
    assert_eq!(hours(r#"{ from = "09:00", until = "17:00" }"#, "2026-03-18"), outcome("18T07:00", "18T15:00"));
    assert_eq!(hours(r#"{ from = "18:15", until = "08:00" }"#, "2026-03-18"), outcome("17T16:15", "18T06:00"));
    assert_eq!(hours(r#"{ from = "18:15", until = "18:15" }"#, "2026-03-18"), outcome("17T16:15", "18T16:15"));
    assert_eq!(calendar(MAIN).reporting(0, day("2026-03-18")), None);
    for (wrong, rule) in [
        (r#"{ from = "08:00", until = "8" }"#, "time"),
        (r#"{ from = "24:00", until = "18:15" }"#, "time"),
        (r#"{ from = "09:00", until = "08:00" }"#, "order"),
        (r#"{ from = "08:00", until = "18:16" }"#, "order"),
        (r#"{ from = "08:00", until = "08:00" }"#, "order"),
    ] {
        let outcome = complaint(&with_hours(wrong));
        assert!(outcome.starts_with("venue.toml:9: schedule \"main\", trade_reporting"), "{outcome}");
        assert!(outcome.contains(&format!("[rule: {rule}]")), "{outcome}");
    }
}
