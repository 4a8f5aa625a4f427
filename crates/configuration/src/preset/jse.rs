//! A day of the Johannesburg exchange (rulebook 5.1 and 10.2).

use pitwire_schedule::{CalendarDef, HoursDef, ScheduleDef, SessionDef};

use crate::preset::definition::Preset;
use crate::preset::demo::{accounts, logins};
use crate::rules::RulesDef;
use crate::setup::{CurrencyDef, InstrumentDef, SegmentDef, Setup};

/// Start of venue time: five minutes before the opening call.
const STARTS: u32 = 8 * 3600 + 25 * 60;

/// Share, segment, start price in rand.
const SHARES: [[&str; 3]; 12] = [
    ["NPN", "ZA01", "3250.00"],
    ["AGL", "ZA01", "510.00"],
    ["SOL", "ZA01", "118.00"],
    ["MTN", "ZA01", "96.00"],
    ["FSR", "ZA01", "72.00"],
    ["SBK", "ZA01", "215.00"],
    ["AVI", "ZA02", "92.00"],
    ["TFG", "ZA02", "135.00"],
    ["CLH", "ZA03", "6.50"],
    ["RBO", "ZA03", "14.20"],
    ["BNS", "ZA04", "101.00"],
    ["STX", "ZA06", "84.00"],
];

/// Segment, its schedule, its price band in percent, and its tolerances by session: static and
/// dynamic, in percent.
type Segment = (&'static str, &'static str, Option<u32>, &'static [(&'static str, &'static str, &'static str)]);

const SEGMENTS: [Segment; 5] = [
    (
        "ZA01",
        "main",
        Some(90),
        &[
            ("opening_auction", "8", "6"),
            ("reopening_auction", "8", "6"),
            ("continuous", "10", "3"),
            ("closing_auction", "4", "2"),
            ("fco_auction", "15", "2"),
        ],
    ),
    (
        "ZA02",
        "main",
        None,
        &[
            ("opening_auction", "20", "10"),
            ("reopening_auction", "20", "10"),
            ("continuous", "15", "5"),
            ("closing_auction", "10", "5"),
            ("fco_auction", "30", "4"),
        ],
    ),
    (
        "ZA03",
        "less-liquid",
        None,
        &[
            ("opening_auction", "50", "25"),
            ("reopening_auction", "50", "25"),
            ("continuous", "50", "25"),
            ("intraday_auction", "50", "25"),
            ("closing_auction", "50", "25"),
            ("fco_auction", "50", "25"),
        ],
    ),
    (
        "ZA04",
        "main",
        None,
        &[
            ("opening_auction", "70", "50"),
            ("reopening_auction", "70", "50"),
            ("continuous", "70", "50"),
            ("fco_auction", "70", "50"),
        ],
    ),
    (
        "ZA06",
        "main",
        None,
        &[
            ("opening_auction", "20", "8"),
            ("reopening_auction", "20", "8"),
            ("continuous", "15", "5"),
            ("closing_auction", "20", "8"),
            ("fco_auction", "30", "4"),
        ],
    ),
];

/// Public holidays of South Africa on which the exchange is closed. Later years must be added by
/// hand.
const HOLIDAYS: [&str; 24] = [
    "2026-01-01",
    "2026-03-21",
    "2026-04-03",
    "2026-04-06",
    "2026-04-27",
    "2026-05-01",
    "2026-06-16",
    "2026-08-10",
    "2026-09-24",
    "2026-12-16",
    "2026-12-25",
    "2026-12-26",
    "2027-01-01",
    "2027-03-22",
    "2027-03-26",
    "2027-03-29",
    "2027-04-27",
    "2027-05-01",
    "2027-06-16",
    "2027-08-09",
    "2027-09-24",
    "2027-12-16",
    "2027-12-25",
    "2027-12-27",
];

/// The exchange closes at noon on the last trading days before Christmas and New Year.
const HALF_DAYS: [&str; 4] = ["2026-12-24", "2026-12-31", "2027-12-24", "2027-12-31"];

/// Longest random delay of the end of a call.
const RANDOM_END: &str = "30s";

pub fn jse() -> Preset {
    let shares = SHARES.map(|[share, ..]| CurrencyDef { name: share.into(), decimals: 0 });
    let rand = CurrencyDef { name: "ZAR".into(), decimals: 2 };
    let mut endowment: Vec<(String, String)> = vec![("ZAR".into(), "10000000".into())];
    endowment.extend(SHARES.map(|[share, ..]| (share.into(), "10000".into())));
    Preset {
        name: "jse",
        setup: Setup {
            currencies: [rand].into_iter().chain(shares).collect(),
            instruments: SHARES.map(instrument).into(),
            accounts: accounts(endowment),
            calendar: Some(calendar()),
            schedules: vec![schedule("main", false), schedule("less-liquid", true)],
            segments: SEGMENTS.iter().map(segment).collect(),
            ..Setup::default()
        },
        starts: Some(STARTS),
        flow_percent: 24,
        warm_up_s: 0,
        logins: logins(),
    }
}

fn instrument([share, segment, start]: [&str; 3]) -> InstrumentDef {
    InstrumentDef {
        name: format!("{share}_ZAR"),
        base: share.into(),
        quote: "ZAR".into(),
        tick: "0.01".into(),
        lot: "1".into(),
        start_price: start.into(),
        segment: Some(segment.into()),
        ..InstrumentDef::default()
    }
}

fn calendar() -> CalendarDef {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    CalendarDef {
        time_zone: "Africa/Johannesburg".into(),
        day_ends: "18:15".into(),
        trading_days: texts(&["mon", "tue", "wed", "thu", "fri"]),
        holidays: texts(&HOLIDAYS),
        half_days: texts(&HALF_DAYS),
        ..CalendarDef::default()
    }
}

fn schedule(name: &str, has_intraday_call: bool) -> ScheduleDef {
    let morning = || {
        vec![
            SessionDef::at("start_of_trading", "07:00"),
            SessionDef::at("opening_auction", "08:30").ends_at_random(RANDOM_END),
            SessionDef::at("continuous", "09:00"),
        ]
    };
    let mut sessions = morning();
    if has_intraday_call {
        sessions.push(SessionDef::at("intraday_auction", "12:00").ends_at_random(RANDOM_END));
        sessions.push(SessionDef::at("continuous", "12:15"));
    }
    sessions.extend(close(["16:50", "17:00", "17:05", "17:10"]));
    let mut half_day = morning();
    half_day.extend(close(["11:50", "12:00", "12:05", "12:10"]));
    let trade_reporting = Some(HoursDef { from: "08:00".into(), until: "18:15".into() });
    ScheduleDef { name: name.into(), sessions, half_day: Some(half_day), trade_reporting, ..ScheduleDef::default() }
}

fn close([call, publication, cross, post_close]: [&str; 4]) -> [SessionDef; 4] {
    [
        SessionDef::at("closing_auction", call).ends_at_random(RANDOM_END),
        SessionDef::at("closing_price_publication", publication),
        SessionDef::at("closing_price_cross", cross),
        SessionDef::at("post_close", post_close),
    ]
}

fn segment((name, schedule, band_percent, tolerances): &Segment) -> SegmentDef {
    let tolerances = tolerances
        .iter()
        .map(|(session, fixed, moving)| ((*session).to_owned(), ((*fixed).to_owned(), (*moving).to_owned())));
    SegmentDef {
        name: (*name).into(),
        schedule: Some((*schedule).into()),
        rules: Some(RulesDef { band_percent: *band_percent, tolerances: tolerances.collect(), ..RulesDef::default() }),
        ..SegmentDef::default()
    }
}
