//! The report as one self-contained HTML page: what the run shows, plots with their captions, and
//! tables.
//!
//! Holds       1. the page loads nothing, follows the light or dark style of the reader, and prints
//!                on paper with every section open;
//!             2. each plot explains itself: legend, units and a sentence that reads it.
//! Start at    [`page`].

// A plot shows fewer digits than a float has, and negative values are cut off first.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::error::Error;
use std::fmt::Write as _;

use pitwire_model::Side;

use crate::flow_figures::{EventTypeFigures, FlowFigures};
use crate::instrument_figures::{CurvePoint, InstrumentFigures};
use crate::plots::{Axis, Colour, Mark, Plot};
use crate::run_report::{InstrumentReport, RunFigures};
use crate::stylised_facts::Verdict;

type PlotResult = Result<String, Box<dyn Error>>;

/// Number of instruments whose plots are open at first, most trades first.
const OPEN: usize = 3;
/// Style of a page with plots: colours for light, dark and print.
pub const STYLE: &str = include_str!("report.css");
/// Opens every section before the page is printed.
const SCRIPT: &str = "addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open=true))";

/// Returns the HTML document.
///
/// # Errors
/// Fails if the drawing library refuses a plot.
pub fn page(title: &str, figures: &RunFigures) -> PlotResult {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\n\
         <style>{STYLE}</style><script>{SCRIPT}</script>\n<main><h1>{title}</h1>\n<p>{} of venue time, {} instruments, \
         {} trades. Times count from the start of the run. Spread, depth, volatility and returns are measured in \
         continuous trading only. All figures as numbers: <code>report.json</code>.</p>\n",
        clock(figures.seconds),
        figures.instruments.len(),
        figures.instruments.iter().map(|one| one.figures.trades).sum::<u64>(),
    );
    summary(&mut out, figures);
    flow(&mut out, &figures.flow)?;
    for (at, instrument) in figures.instruments.iter().enumerate() {
        section(&mut out, instrument, at < OPEN)?;
    }
    out.push_str(SOURCES);
    out.push_str("</main></html>\n");
    Ok(out)
}

const SOURCES: &str = "<h2>Sources</h2>\n<ul class=\"sources\">\
<li>R. Cont, Empirical properties of asset returns: stylized facts and statistical issues. Quantitative Finance 1, 2001.</li>\
<li>F. Lillo and J. D. Farmer, The long memory of the efficient market. Studies in Nonlinear Dynamics and Econometrics 8, 2004.</li>\
<li>J.-P. Bouchaud, Y. Gefen, M. Potters and M. Wyart, Fluctuations and response in financial markets. Quantitative Finance 4, 2004.</li>\
<li>J.-P. Bouchaud, M. Mézard and M. Potters, Statistical properties of stock order books. Quantitative Finance 2, 2002.</li>\
<li>T. G. Andersen, T. Bollerslev, F. X. Diebold and P. Labys, Great realizations. Risk 13, 2000.</li>\
<li>A. G. Hawkes, Spectra of some self-exciting and mutually exciting point processes. Biometrika 58, 1971.</li>\
<li>E. N. Brown, R. Barbieri, V. Ventura, R. E. Kass and L. M. Frank, The time-rescaling theorem. Neural Computation 14, 2002.</li>\
<li>M. S. Bartlett, On the theoretical specification and sampling properties of autocorrelated time-series. Journal of the Royal Statistical Society 8, 1946.</li>\
</ul>\n";

/// Returns a time as hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02} h") } else { format!("{minutes}:{seconds:02} min") }
}

/// Writes the stylised facts over all instruments, and the figures of each instrument.
fn summary(out: &mut String, figures: &RunFigures) {
    out.push_str("<h2>What this run shows</h2>\n");
    if !figures.facts.is_empty() {
        out.push_str(
            "<table class=\"facts\"><thead><tr><th>published property of markets</th><th>instruments with it</th>\
             <th>over all</th><th>statistic</th><th>passes when</th><th>source</th></tr></thead><tbody>\n",
        );
        for fact in &figures.facts {
            let share = match fact.judged {
                0 => "too few values".to_owned(),
                judged => format!("{} of {judged}", fact.passed),
            };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{share}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                fact.name,
                fact.words_over_all(),
                fact.statistic,
                fact.criterion,
                fact.source
            );
        }
        out.push_str("</tbody></table>\n");
    }
    out.push_str(
        "<table class=\"numbers\" tabindex=\"0\"><thead><tr><th>instrument</th><th>trades</th><th>lots</th><th>mean spread, ticks</th>\
         <th>95 % spread</th><th>lots at the touch</th><th>volatility 1 s, ticks/√s</th><th>60 s</th></tr></thead><tbody>\n",
    );
    for InstrumentReport { figures: one, .. } in &figures.instruments {
        let spread = one.spread_ticks.as_ref();
        let touch = one.depth_lots.first().map_or(0.0, |touch| f64::midpoint(touch.bid, touch.ask));
        let volatility = |seconds: usize| {
            let found = one.volatility.iter().find(|point| point.at == seconds);
            found.map_or_else(|| "–".to_owned(), |point| format!("{:.3}", point.value))
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{touch:.1}</td><td>{}</td><td>{}</td></tr>",
            one.name,
            one.trades,
            one.lots,
            spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.2}", spread.mean)),
            spread.map_or_else(|| "–".to_owned(), |spread| spread.p95.to_string()),
            volatility(1),
            volatility(60),
        );
    }
    out.push_str("</tbody></table>\n");
}

fn figure(out: &mut String, caption: &str, svg: &str, reading: &str) {
    let _ = writeln!(out, "<figure><h3>{caption}</h3>{svg}<figcaption>{reading}</figcaption></figure>");
}

fn flow(out: &mut String, figures: &FlowFigures) -> Result<(), Box<dyn Error>> {
    out.push_str("<h2>Order flow against theory</h2>\n<div class=\"plots\">\n");
    let judged: Vec<bool> = figures.types.iter().filter_map(EventTypeFigures::agrees).collect();
    let within = judged.iter().filter(|agrees| **agrees).count();
    let reading = format!(
        "{within} of {} rates are within two standard errors of the long-run rate of the process. The flow had {:.2} \
         events a second, and theory has {}; {:.0} % of the events are caused by others.",
        judged.len(),
        figures.events_per_s,
        figures.expected_events_per_s.map_or_else(|| "no figure".to_owned(), |rate| format!("{rate:.2}")),
        100.0 * figures.branching_ratio
    );
    figure(out, "Events of each type a second", &rates(figures)?, &reading);
    let reading = format!(
        "Logarithmic scale. {} The plain gaps would lie on the same line if no event caused another.",
        figures.interevent_times.sentence()
    );
    figure(out, "Times between events", &interevent_times(figures)?, &reading);
    out.push_str("</div>\n");
    Ok(())
}

fn whole_number(at: f64) -> String {
    format!("{at:.0}")
}

fn short_number(at: f64) -> String {
    if at.abs() >= 1e6 {
        format!("{:.1} M", at / 1e6)
    } else if at.abs() >= 1e4 {
        format!("{:.0} k", at / 1e3)
    } else if at.abs() >= 100.0 || at.fract() == 0.0 {
        format!("{at:.0}")
    } else if at.abs() >= 1.0 {
        format!("{at:.1}")
    } else {
        format!("{at:.3}")
    }
}

/// Returns the end of an axis: 15 % above the largest value, and never zero.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    1.15 * values.fold(f64::MIN_POSITIVE, f64::max).max(1e-9)
}

fn rates(figures: &FlowFigures) -> PlotResult {
    let types = &figures.types;
    let name = |at: f64| {
        // Type n is at the height (last - n): the first one at the top.
        let is_row = at >= -1e-6 && (at - at.round()).abs() < 1e-6;
        let number = types.len().checked_sub(1 + at.round().max(0.0) as usize).filter(|_| is_row);
        number.map_or_else(String::new, |number| types[number].name.clone())
    };
    let row = |number: usize| (types.len() - 1 - number) as f64;
    let bars = |is_sell: bool| {
        let of_side = types.iter().enumerate().filter(move |(_, one)| (one.side == Some(Side::Sell)) == is_sell);
        of_side.map(|(number, one)| [0.0, row(number) - 0.35, one.per_s, row(number) + 0.35]).collect()
    };
    let ranges: Vec<(f64, [f64; 3])> = types
        .iter()
        .enumerate()
        .filter_map(|(number, one)| {
            let (expected, error) = one.expected_per_s.zip(one.standard_error_per_s)?;
            Some((row(number), [(expected - 2.0 * error).max(0.0), expected, expected + 2.0 * error]))
        })
        .collect();
    let widest = top(types.iter().map(|one| one.per_s).chain(ranges.iter().map(|(_, [_, _, high])| *high)));
    let marks = vec![
        Mark::Bars { bars: bars(false), colour: Colour::Buy, label: "buys or both sides, realised" },
        Mark::Bars { bars: bars(true), colour: Colour::Sell, label: "sells, realised" },
        Mark::Ranges { ranges, label: "theory ± 2 standard errors" },
    ];
    Plot {
        x: Axis { label: "events per second", from: 0.0, to: widest, format: &short_number, room: 36, labels: 7 },
        // Room for the legend above the bars.
        y: Axis { label: "", from: -0.5, to: types.len() as f64 + 2.0, format: &name, room: 190, labels: 11 },
        marks,
    }
    .svg()
}

fn interevent_times(figures: &FlowFigures) -> PlotResult {
    /// Smallest share on the axis.
    const LEAST: f64 = 1e-4;
    let times = &figures.interevent_times;
    let end = -LEAST.ln();
    let line = |points: &[crate::flow_figures::SurvivalPoint]| {
        let shown = points.iter().filter(|point| point.share >= LEAST && point.at <= end);
        std::iter::once((0.0, Some(0.0))).chain(shown.map(|point| (point.at, Some(point.share.log10())))).collect()
    };
    let marks = vec![
        Mark::Line { points: line(&times.plain), colour: Colour::Sell, label: "gap × long-run rate" },
        Mark::Line { points: line(&times.rescaled), colour: Colour::Buy, label: "integrated intensity (rescaled)" },
        Mark::Line {
            points: vec![(0.0, Some(0.0)), (end, Some(LEAST.log10()))],
            colour: Colour::Ink,
            label: "exponential: theory",
        },
    ];
    Plot {
        x: Axis {
            label: "time between events, in means",
            from: 0.0,
            to: end,
            format: &whole_number,
            room: 36,
            labels: 7,
        },
        y: Axis {
            label: "share that is longer",
            from: LEAST.log10(),
            to: 0.3,
            format: &power_of_ten,
            room: 60,
            labels: 7,
        },
        marks,
    }
    .svg()
}

fn power_of_ten(at: f64) -> String {
    if (at - at.round()).abs() < 1e-6 {
        format!("{:.*}", (-at).max(0.0) as usize, 10_f64.powf(at))
    } else {
        String::new()
    }
}

fn section(out: &mut String, instrument: &InstrumentReport, is_open: bool) -> Result<(), Box<dyn Error>> {
    let InstrumentReport { figures, facts } = instrument;
    let _ = writeln!(
        out,
        "<details{}><summary><h2>{}</h2> {} trades, {} lots</summary>\n<div class=\"plots\">",
        if is_open { " open" } else { "" },
        figures.name,
        figures.trades,
        figures.lots
    );
    figure(out, "Price", &price(figures)?, &price_reading(figures));
    figure(out, "Volume by price", &volume_profile(figures)?, &profile_reading(figures));
    figure(
        out,
        "Volume by type",
        &volume_by_type(figures)?,
        "Lots that the orders of each event type traded on arrival, and the lots of other trades.",
    );
    figure(
        out,
        "Volume over time",
        &volume(figures)?,
        &format!("Lots in each interval of {} s.", figures.path.interval_s),
    );
    figure(out, "Spread over time", &spread_over_time(figures)?, &spread_reading(figures));
    figure(
        out,
        "Depth over time",
        &depth_over_time(figures)?,
        "Mean lots at the best bid and at the best offer of each interval.",
    );
    figure(out, "Spread: share of the time", &spread(figures)?, "Weighted by the time that each spread lasted.");
    figure(
        out,
        "Depth by distance",
        &depth(figures)?,
        "Mean lots by distance from the best price of the same side; bids on the left.",
    );
    figure(
        out,
        "Volatility signature",
        &volatility(figures)?,
        "Flat for a random walk; it falls where the price bounces between bid and offer, and rises where it trends.",
    );
    figure(out, "Autocorrelation of order signs", &signs(figures)?, &signs_reading(figures));
    figure(out, "Autocorrelation of returns", &return_autocorrelation(figures)?, &returns_reading(figures));
    figure(
        out,
        "Impact",
        &impact(figures)?,
        "Mean move of the mid in the direction of an order that traded on arrival.",
    );
    out.push_str(
        "</div>\n<table><thead><tr><th>published property</th><th>verdict</th><th>measured</th></tr></thead><tbody>\n",
    );
    for fact in facts {
        let class = if fact.verdict == Verdict::Pass { "seen" } else { "other" };
        let measured = match (fact.value, fact.band) {
            (Some(value), Some([low, high])) => format!("{value:.3}, band {low:.3} to {high:.3}"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td></tr>",
            fact.name,
            fact.verdict.words(),
            measured
        );
    }
    out.push_str("</tbody></table>\n</details>\n");
    Ok(())
}

/// The time axis of an instrument's plots: hours, minutes or seconds since the start.
struct TimeScale {
    label: &'static str,
    unit_s: f64,
    end_s: f64,
}

impl TimeScale {
    fn of(figures: &InstrumentFigures) -> Self {
        let path = &figures.path;
        let end_s = (path.intervals.len() as u64 * path.interval_s).max(1) as f64;
        let (label, unit_s) = match end_s {
            7_200.0.. => ("hours since the start", 3_600.0),
            120.0.. => ("minutes since the start", 60.0),
            _ => ("seconds since the start", 1.0),
        };
        TimeScale { label, unit_s, end_s }
    }

    fn at(&self, seconds: f64) -> f64 {
        seconds / self.unit_s
    }

    fn axis(&self) -> Axis<'static> {
        Axis { label: self.label, from: 0.0, to: self.at(self.end_s), format: &short_number, room: 36, labels: 7 }
    }

    /// Draws `marks` over time. The vertical axis has this label and goes from 0 to `highest`.
    fn plot(&self, label: &str, highest: f64, marks: Vec<Mark<'_>>) -> PlotResult {
        let y = Axis { label, from: 0.0, to: highest, format: &short_number, room: 60, labels: 7 };
        Plot { x: self.axis(), y, marks }.svg()
    }

    /// Returns the sessions that are not continuous trading, as marks over the whole height. A
    /// session gets its name if there is room.
    fn session_marks(&self, figures: &InstrumentFigures) -> Vec<Mark<'static>> {
        /// Width of a letter as a share of the plot.
        const LETTER: f64 = 0.013;
        other_sessions(figures, self.end_s)
            .into_iter()
            .map(|(from, to, name)| {
                let has_room = (to - from) / self.end_s > LETTER * name.len() as f64;
                Mark::Span { from: self.at(from), to: self.at(to), name: if has_room { name } else { String::new() } }
            })
            .collect()
    }
}

/// Returns the sessions other than continuous trading: start, end and name.
fn other_sessions(figures: &InstrumentFigures, end_s: f64) -> Vec<(f64, f64, String)> {
    let sessions = &figures.path.sessions;
    let ends = sessions.iter().skip(1).map(|next| next.at_s).chain([end_s]);
    let spans =
        sessions.iter().zip(ends).filter(|(session, end)| session.session != "continuous" && *end > session.at_s);
    spans.map(|(session, end)| (session.at_s, end, session_name(session.session))).collect()
}

fn session_name(name: &str) -> String {
    name.trim_end_matches("_auction").replace('_', " ")
}

/// Returns a price in quote currency, with the digits that the tick needs.
fn price_text(tick: f64, ticks: f64) -> String {
    let digits = (-tick.log10()).ceil().clamp(0.0, 12.0) as usize;
    format!("{:.digits$}", ticks * tick)
}

fn price(figures: &InstrumentFigures) -> PlotResult {
    let tick = figures.tick;
    let path = &figures.path;
    let time = TimeScale::of(figures);
    let middle = |at_s: u64| time.at(at_s as f64 + path.interval_s as f64 / 2.0);
    let half = time.at(path.interval_s as f64 * 0.4);
    let ranges = path.intervals.iter().filter_map(|one| {
        let (low, high) = (one.low_ticks? as f64 * tick, one.high_ticks? as f64 * tick);
        Some([middle(one.at_s) - half, low, middle(one.at_s) + half, high])
    });
    let last = path.intervals.iter().filter_map(|one| Some((middle(one.at_s), Some(one.last_ticks? as f64 * tick))));
    let prices = || {
        let traded = path.intervals.iter().filter_map(|one| Some([one.low_ticks?, one.high_ticks?])).flatten();
        traded.chain(path.auctions.iter().map(|auction| auction.price_ticks)).map(|ticks| ticks as f64 * tick)
    };
    let (low, high) = (prices().fold(f64::MAX, f64::min), prices().fold(f64::MIN, f64::max));
    let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
    let room = ((high - low) * 0.12).max(tick);
    let mut marks = time.session_marks(figures);
    marks.push(Mark::Bars { bars: ranges.collect(), colour: Colour::Line, label: "lowest to highest price" });
    marks.push(Mark::Line { points: last.collect(), colour: Colour::Line, label: "last price" });
    marks.extend(path.auctions.iter().map(|auction| {
        let price = auction.price_ticks as f64;
        let text = format!("{} {}", session_name(auction.call), price_text(tick, price));
        Mark::Point { at: (time.at(auction.at_s), price * tick), text }
    }));
    let format = |at: f64| price_text(tick, (at / tick).round());
    Plot {
        x: time.axis(),
        y: Axis { label: "price", from: low - room, to: high + 2.0 * room, format: &format, room: 76, labels: 7 },
        marks,
    }
    .svg()
}

fn price_reading(figures: &InstrumentFigures) -> String {
    let path = &figures.path;
    let first = path.intervals.iter().find_map(|one| one.last_ticks);
    let last = path.intervals.iter().rev().find_map(|one| one.last_ticks);
    let Some((first, last)) = first.zip(last) else { return "There were no trades.".to_owned() };
    let change = 100.0 * (last - first) as f64 / first as f64;
    let auctions = match path.auctions.len() {
        0 => String::new(),
        1 => " One auction found a price.".to_owned(),
        count => format!(" {count} auctions found a price."),
    };
    let end_s = TimeScale::of(figures).end_s;
    let mut others: Vec<String> = other_sessions(figures, end_s).into_iter().map(|(_, _, name)| name).collect();
    others.dedup();
    let shaded = if others.is_empty() { String::new() } else { format!(" Shaded, in order: {}.", others.join(", ")) };
    format!(
        "From {} to {}, a change of {change:+.2} %. Each bar is {} s.{shaded}{auctions}",
        price_text(figures.tick, first as f64),
        price_text(figures.tick, last as f64),
        path.interval_s
    )
}

fn volume_profile(figures: &InstrumentFigures) -> PlotResult {
    let tick = figures.tick;
    let bars = &figures.volume_profile;
    let (low, high) = match (bars.first(), bars.last()) {
        (Some(first), Some(last)) => (first.from_ticks as f64, last.to_ticks as f64),
        _ => (0.0, 1.0),
    };
    let drawn = bars.iter().map(|bar| {
        let (from, to) = (bar.from_ticks as f64, bar.to_ticks as f64);
        [0.0, (from + (to - from) * 0.05) * tick, bar.lots as f64, (to - (to - from) * 0.05) * tick]
    });
    let format = |at: f64| price_text(tick, (at / tick).round());
    Plot {
        x: Axis {
            label: "lots",
            from: 0.0,
            to: top(bars.iter().map(|bar| bar.lots as f64)),
            format: &short_number,
            room: 36,
            labels: 7,
        },
        y: Axis { label: "price", from: low * tick, to: high * tick, format: &format, room: 76, labels: 7 },
        marks: vec![Mark::Bars { bars: drawn.collect(), colour: Colour::Line, label: "" }],
    }
    .svg()
}

fn profile_reading(figures: &InstrumentFigures) -> String {
    let Some(most) = figures.volume_profile.iter().max_by_key(|bar| bar.lots) else {
        return "There were no trades.".to_owned();
    };
    let share = 100.0 * most.lots as f64 / figures.lots.max(1) as f64;
    let ticks = most.to_ticks - most.from_ticks;
    format!(
        "Most lots traded around {}: {share:.1} % of all. A bar is {ticks} tick{} high.",
        price_text(figures.tick, most.from_ticks as f64),
        if ticks == 1 { "" } else { "s" }
    )
}

fn volume_by_type(figures: &InstrumentFigures) -> PlotResult {
    let volume = &figures.volume_by_type;
    let types = volume.types.iter().map(|one| (one.name.as_str(), one.side, one.traded_lots));
    let others = [("no aggressor", None, volume.uncross_lots), ("other aggressors", None, volume.other_lots)];
    let rows: Vec<_> = types.chain(others).collect();
    // The first row is at the top.
    let height = |number: usize| (rows.len() - 1 - number) as f64;
    let name = |at: f64| {
        let is_row = at >= -1e-6 && (at - at.round()).abs() < 1e-6;
        let number = rows.len().checked_sub(1 + at.round().max(0.0) as usize).filter(|_| is_row);
        number.map_or_else(String::new, |number| rows[number].0.to_owned())
    };
    let bars = |is_sell: bool| {
        let of_side = rows.iter().enumerate().filter(move |(_, (_, side, _))| (*side == Some(Side::Sell)) == is_sell);
        of_side.map(|(number, row)| [0.0, height(number) - 0.35, row.2 as f64, height(number) + 0.35]).collect()
    };
    Plot {
        x: Axis {
            label: "lots",
            from: 0.0,
            to: top(rows.iter().map(|row| row.2 as f64)),
            format: &short_number,
            room: 36,
            labels: 7,
        },
        // Room for the legend above the bars.
        y: Axis { label: "", from: -0.5, to: rows.len() as f64 + 1.5, format: &name, room: 190, labels: 13 },
        marks: vec![
            Mark::Bars { bars: bars(false), colour: Colour::Buy, label: "buys or both sides" },
            Mark::Bars { bars: bars(true), colour: Colour::Sell, label: "sells" },
        ],
    }
    .svg()
}

fn volume(figures: &InstrumentFigures) -> PlotResult {
    let path = &figures.path;
    let time = TimeScale::of(figures);
    let bars = path.intervals.iter().map(|one| {
        let right = one.at_s as f64 + 0.9 * path.interval_s as f64;
        [time.at(one.at_s as f64), 0.0, time.at(right), one.lots as f64]
    });
    let mut marks = time.session_marks(figures);
    marks.push(Mark::Bars { bars: bars.collect(), colour: Colour::Line, label: "" });
    let highest = top(path.intervals.iter().map(|one| one.lots as f64));
    time.plot("lots", highest, marks)
}

fn spread_over_time(figures: &InstrumentFigures) -> PlotResult {
    let time = TimeScale::of(figures);
    let points = figures.path.intervals.iter().map(|one| (time.at(one.at_s as f64), one.spread_ticks));
    let highest = top(figures.path.intervals.iter().filter_map(|one| one.spread_ticks));
    let mut marks = time.session_marks(figures);
    marks.push(Mark::Line { points: points.collect(), colour: Colour::Line, label: "" });
    time.plot("mean spread, ticks", highest, marks)
}

fn spread_reading(figures: &InstrumentFigures) -> String {
    figures.spread_ticks.as_ref().map_or_else(
        || "The book never had two sides in continuous trading.".to_owned(),
        |spread| {
            format!(
                "Mean {:.2} ticks, median {}, and at most {} for 95 % of the time.",
                spread.mean, spread.median, spread.p95
            )
        },
    )
}

fn depth_over_time(figures: &InstrumentFigures) -> PlotResult {
    let intervals = &figures.path.intervals;
    let time = TimeScale::of(figures);
    let bids = intervals.iter().map(|one| (time.at(one.at_s as f64), one.best_bid_lots)).collect();
    let asks = intervals.iter().map(|one| (time.at(one.at_s as f64), one.best_ask_lots)).collect();
    let highest = top(intervals.iter().flat_map(|one| [one.best_bid_lots, one.best_ask_lots]).flatten());
    let mut marks = time.session_marks(figures);
    marks.push(Mark::Line { points: bids, colour: Colour::Buy, label: "best bid" });
    marks.push(Mark::Line { points: asks, colour: Colour::Sell, label: "best offer" });
    time.plot("lots", highest, marks)
}

fn spread(figures: &InstrumentFigures) -> PlotResult {
    let share = figures.spread_ticks.as_ref().map_or(&[][..], |spread| &spread.share);
    // Wider spreads are so rare that they would only compress the others.
    let widest = figures.spread_ticks.as_ref().map_or(1, |spread| (2 * spread.p95).max(4)) as f64;
    let within = share.iter().map(|(ticks, share)| (*ticks as f64, *share)).filter(|(ticks, _)| *ticks <= widest);
    let bars = within.map(|(ticks, share)| [ticks - 0.4, 0.0, ticks + 0.4, share]).collect();
    Plot {
        x: Axis { label: "spread, ticks", from: 0.0, to: widest + 1.0, format: &whole_number, room: 36, labels: 7 },
        y: Axis {
            label: "share of the time",
            from: 0.0,
            to: top(share.iter().map(|(_, share)| *share)),
            format: &short_number,
            room: 60,
            labels: 7,
        },
        marks: vec![Mark::Bars { bars, colour: Colour::Line, label: "" }],
    }
    .svg()
}

fn depth(figures: &InstrumentFigures) -> PlotResult {
    let levels = &figures.depth_lots;
    let bids = levels.iter().map(|depth| [-(depth.ticks as f64) - 0.9, 0.0, -(depth.ticks as f64) - 0.1, depth.bid]);
    let asks = levels.iter().map(|depth| [depth.ticks as f64 + 0.1, 0.0, depth.ticks as f64 + 0.9, depth.ask]);
    let marks = vec![
        Mark::Bars { bars: bids.collect(), colour: Colour::Buy, label: "bids" },
        Mark::Bars { bars: asks.collect(), colour: Colour::Sell, label: "offers" },
    ];
    let distance = |at: f64| whole_number(at.abs());
    let side = levels.len() as f64;
    Plot {
        x: Axis {
            label: "ticks behind the best price of the side",
            from: -side,
            to: side,
            format: &distance,
            room: 36,
            labels: 7,
        },
        y: Axis {
            label: "mean lots",
            from: 0.0,
            to: top(levels.iter().map(|depth| depth.bid.max(depth.ask))),
            format: &short_number,
            room: 60,
            labels: 7,
        },
        marks,
    }
    .svg()
}

/// Plots points over a logarithmic axis of lags, with a band around zero if there is one.
fn over_lags(x: &str, y: &str, lines: &[(&[CurvePoint], Colour, &str)], band: Option<f64>) -> PlotResult {
    let values = || lines.iter().flat_map(|(points, ..)| points.iter().map(|point| point.value));
    let highest = top(values().chain(band));
    let lowest = 1.15 * values().chain(band.map(|band| -band)).fold(0.0, f64::min);
    let last = lines.iter().filter_map(|(points, ..)| points.last()).map(|point| point.at).max().unwrap_or(10);
    let place = |at: usize| (at.max(1) as f64).log10();
    let mut marks = Vec::new();
    if let Some(band) = band {
        marks.push(Mark::Band { from: -band, to: band, label: "95 % of independent values" });
    }
    marks.extend(lines.iter().map(|(points, colour, label)| Mark::Dots {
        points: points.iter().map(|point| (place(point.at), point.value)).collect(),
        colour: *colour,
        label,
    }));
    let lag = |at: f64| format!("{:.0}", 10_f64.powf(at));
    Plot {
        x: Axis { label: x, from: -0.05, to: place(last) + 0.05, format: &lag, room: 36, labels: 7 },
        y: Axis {
            label: y,
            from: lowest,
            to: highest + 0.15 * (highest - lowest),
            format: &short_number,
            room: 60,
            labels: 7,
        },
        marks,
    }
    .svg()
}

fn volatility(figures: &InstrumentFigures) -> PlotResult {
    over_lags(
        "seconds between samples (logarithmic)",
        "ticks / √s",
        &[(&figures.volatility, Colour::Line, "volatility of the mid")],
        None,
    )
}

fn impact(figures: &InstrumentFigures) -> PlotResult {
    over_lags("orders later (logarithmic)", "ticks", &[(&figures.impact, Colour::Line, "response of the mid")], None)
}

fn signs(figures: &InstrumentFigures) -> PlotResult {
    let lines = [(&figures.sign_autocorrelation[..], Colour::Line, "order signs")];
    over_lags("orders later (logarithmic)", "correlation", &lines, Some(figures.sign_band))
}

fn return_autocorrelation(figures: &InstrumentFigures) -> PlotResult {
    let returns = &figures.returns;
    let lines = [
        (&returns.autocorrelation[..], Colour::Line, "returns"),
        (&returns.size_autocorrelation[..], Colour::Accent, "sizes of returns"),
    ];
    over_lags("intervals later (logarithmic)", "correlation", &lines, Some(returns.band))
}

/// Returns how many points are outside a band.
fn outside(points: &[CurvePoint], band: f64) -> usize {
    points.iter().filter(|point| point.value.abs() > band).count()
}

fn signs_reading(figures: &InstrumentFigures) -> String {
    let (points, band) = (&figures.sign_autocorrelation, figures.sign_band);
    if points.is_empty() {
        return "Too few orders traded on arrival.".to_owned();
    }
    let count = outside(points, band);
    let run = points.iter().take_while(|point| point.value > band).last();
    let says = match (run, points.first()) {
        (Some(last), _) if last.at >= 50 => "Buys follow buys for a long time, as in real markets.".to_owned(),
        (Some(last), _) => format!("Buys follow buys for up to {} orders; in real markets for much longer.", last.at),
        (None, Some(first)) if first.value < -band => {
            "Buys tend to be followed by sells, unlike in real markets.".to_owned()
        }
        _ => "The sign of an order says nothing about the next one; in real markets it does.".to_owned(),
    };
    format!("{count} of {} lags are outside the band of {} independent signs. {says}", points.len(), figures.hits)
}

fn returns_reading(figures: &InstrumentFigures) -> String {
    let returns = &figures.returns;
    if returns.autocorrelation.is_empty() {
        return "Too few returns.".to_owned();
    }
    let direction = match returns.autocorrelation.first() {
        Some(first) if first.value < -returns.band => "A move tends to be followed by one back.",
        Some(first) if first.value > returns.band => "A move tends to go on.",
        _ => "The direction of a move says nothing about the next one.",
    };
    let size = match returns.size_autocorrelation.first() {
        Some(first) if first.value > returns.band => "Large moves follow large ones.",
        _ => "The size of a move says nothing about that of the next one.",
    };
    format!(
        "{} returns of {} s. {} of {} lags of the returns and {} of the sizes are outside the band. {direction} {size}",
        returns.count,
        returns.interval_s,
        outside(&returns.autocorrelation, returns.band),
        returns.autocorrelation.len(),
        outside(&returns.size_autocorrelation, returns.band),
    )
}
