//! Runs the demo flow for days and prints statistics. Expected: prices stay near their start, and
//! books neither empty
//! nor grow.
//!
//! `cargo run --release -p pitwire-order-flow --example soak -- [HOURS] [SEED]`

#[path = "../tests/venue/mod.rs"]
mod venue;

use std::collections::BTreeMap;
use std::time::Instant;

use pitwire_model::{Command, Event, InstrumentId, Side};
use venue::{SECOND, START, Venue};

#[derive(Default)]
struct SoakCounts {
    lowest: i64,
    highest: i64,
    fewest_resting: u32,
    most_resting: u32,
    /// Distance from the best bid to the tenth in ticks, summed over one sample per second.
    ticks_to_tenth: u64,
    /// Number of samples per spread in ticks, with one sample per second.
    spreads: BTreeMap<i64, u64>,
    /// Number of samples per absolute one-minute move of the mid price, in ticks.
    moves: BTreeMap<i64, u64>,
    minute_mid: i64,
    trades: u64,
    commands: u64,
    one_sided_since: Option<u64>,
    longest_one_sided: u64,
}

fn quantile(counts: &BTreeMap<i64, u64>, part: f64) -> i64 {
    let total: u64 = counts.values().sum();
    let mut reached = 0;
    for (value, count) in counts {
        reached += count;
        if reached as f64 >= part * total as f64 {
            return *value;
        }
    }
    0
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let hours: u64 = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(72);
    let seed: u64 = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1);
    let days = hours as f64 / 24.0;
    let began = Instant::now();
    let mut venue = Venue::demo(seed);
    let count = venue.engine.markets().len();
    let mut seen: Vec<SoakCounts> = (0..count)
        .map(|_| SoakCounts { fewest_resting: u32::MAX, lowest: i64::MAX, ..SoakCounts::default() })
        .collect();
    let (mut kinds, mut refused) = ([0_u64; 2], BTreeMap::new());
    let (mut most_scheduled, mut next_second, mut widest_book) = (0, START.0 + 10 * SECOND, 0);
    let end = START.0 + hours * 3600 * SECOND;
    while let Some(due) = venue.flow.next_due().filter(|due| due.0 < end) {
        while due.0 >= next_second {
            sample(&venue, &mut seen, (next_second - START.0) / SECOND);
            most_scheduled = most_scheduled.max(venue.flow.scheduled());
            next_second += SECOND;
        }
        let Some(stamped) = venue.step() else { continue };
        kinds[usize::from(matches!(stamped.command, Command::Cancel { .. }))] += 1;
        for event in &venue.events {
            match event {
                Event::Trade { instrument, .. } => seen[instrument.0 as usize].trades += 1,
                Event::Rejected { reason, .. } | Event::CancelRefused { reason, .. } => {
                    *refused.entry(reason.name()).or_insert(0_u64) += 1;
                }
                Event::BookChanged { instrument, .. } => {
                    note_sides(&venue, *instrument, &mut seen[instrument.0 as usize], due.0);
                }
                _ => {}
            }
        }
        widest_book = widest_book.max(venue.engine.live_orders());
    }
    println!(
        "instrument       start    low%  high% rest min..max  spread 5/50/95/99/max  |move|/min 50/95  trades/s cmds/s one-sided ms  10th level"
    );
    let seconds = days * 86_400.0;
    for (at, seen) in seen.iter().enumerate() {
        let spec = &venue.engine.markets()[at].spec;
        let start = spec.start_price.0;
        let share = |price: i64| 100.0 * (price as f64 / start as f64 - 1.0);
        let spread = |part| quantile(&seen.spreads, part);
        println!(
            "{:<14} {:>7} {:>6.2} {:>6.2} {:>6}..{:<6} {:>3} {:>3} {:>3} {:>3} {:>4} {:>12} {:>4} {:>10.2} {:>6.2} {:>8.1} {:>8.1}",
            spec.name,
            start,
            share(seen.lowest),
            share(seen.highest),
            seen.fewest_resting,
            seen.most_resting,
            spread(0.05),
            spread(0.5),
            spread(0.95),
            spread(0.99),
            seen.spreads.keys().next_back().copied().unwrap_or(0),
            quantile(&seen.moves, 0.5),
            quantile(&seen.moves, 0.95),
            seen.trades as f64 / seconds,
            seen.commands as f64 / seconds,
            seen.longest_one_sided as f64 / 1e6,
            seen.ticks_to_tenth as f64 / seconds,
        );
    }
    let counts = venue.flow.counts();
    let wall = began.elapsed().as_secs_f64();
    println!(
        "{days} days, seed {seed}: {} commands ({} entries, {} cancels), {:.1}/s; events {:.2}/s (theory {:.2}), infeasible {}; refused {refused:?}; scheduled at most {most_scheduled}, live orders at most {widest_book}; wall {wall:.1} s, {:.2} us per command",
        counts.commands,
        kinds[0],
        kinds[1],
        counts.commands as f64 / seconds,
        counts.events as f64 / seconds,
        venue.flow.expected_events_per_second(),
        counts.infeasible,
        wall * 1e6 / counts.commands as f64,
    );
}

fn sample(venue: &Venue, seen: &mut [SoakCounts], second: u64) {
    for (market, seen) in venue.engine.markets().iter().zip(seen) {
        let resting = market.book().resting_orders();
        seen.fewest_resting = seen.fewest_resting.min(resting);
        seen.most_resting = seen.most_resting.max(resting);
        let (Some((bid, _)), Some((ask, _))) = (market.best(Side::Buy), market.best(Side::Sell)) else { continue };
        *seen.spreads.entry(ask.0 - bid.0).or_insert(0) += 1;
        let mid = market.mid().0;
        seen.lowest = seen.lowest.min(mid);
        seen.highest = seen.highest.max(mid);
        let tenth = market.book().levels(Side::Buy).nth(9).map_or(bid.0, |(price, _)| price.0);
        seen.ticks_to_tenth += u64::try_from(bid.0 - tenth).unwrap_or(0);
        if second.is_multiple_of(60) {
            if seen.minute_mid != 0 {
                *seen.moves.entry((mid - seen.minute_mid).abs()).or_insert(0) += 1;
            }
            seen.minute_mid = mid;
        }
    }
}

fn note_sides(venue: &Venue, instrument: InstrumentId, seen: &mut SoakCounts, at: u64) {
    seen.commands += 1;
    let Some(market) = venue.engine.market(instrument) else { return };
    let two_sided = market.best(Side::Buy).is_some() && market.best(Side::Sell).is_some();
    let since = *seen.one_sided_since.get_or_insert(at);
    seen.longest_one_sided = seen.longest_one_sided.max(at - since);
    if two_sided {
        seen.one_sided_since = None;
    }
}
