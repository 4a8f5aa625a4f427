//! How the bare book's time grows: with what rests untouched, with what is live, with the number of instruments.
//!
//! Does        build each point's book outside the clock, run the points of a curve in turn, five rounds, and give
//!             the median processor time of an operation at each and its ratio to the curve's first point.
//! Start at    [`run`], then [`Curve`].

use std::time::Duration;

use clap::ValueEnum;
use pitwire_model::{InstrumentId, Side};
use rustix::time::{ClockId, clock_gettime};

use super::Matcher;
use super::book::{Bare, BareBook, Many};
use super::generate::{Generator, LIVE, MID, Random};
use super::operations::{Kind, Operation};
use super::reports::Reports;
use crate::output::say;
use pitwire_failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Curve {
    /// The same stream near the touch, over so many orders that rest untouched farther off.
    Untouched,
    /// Cancels uniform over so many live orders.
    Cancels,
    /// Mixed flow over so many instruments, one in proportion to 1, the next to 1/2, 1/3, and so on.
    Instruments,
    /// Each of these.
    All,
}

const ROUNDS: usize = 5;
const STREAM: usize = 1_000_000;
/// Live orders of the stream near the touch.
const NEAR: usize = 1_000;
/// Ids of orders that are only there to be there: the generator's are other odd multiples.
const RESTING_IDS: u64 = 1 << 40;

impl Curve {
    fn name(self) -> &'static str {
        match self {
            Curve::Untouched => "untouched",
            Curve::Cancels => "cancels",
            Curve::Instruments => "instruments",
            Curve::All => "all",
        }
    }

    fn points(self) -> &'static [u32] {
        match self {
            Curve::Untouched => &[100, 1_000, 10_000, 100_000, 1_000_000],
            Curve::Cancels => &[100, 1_000, 10_000, 100_000, 1_000_000],
            Curve::Instruments => &[1, 10, 100, 1_000, 10_000],
            Curve::All => &[],
        }
    }

    /// Nanoseconds an operation took.
    fn measure(self, at: u32, seed: u64) -> Result<f64, Failure> {
        match self {
            Curve::Untouched => untouched(at, seed),
            Curve::Cancels => Ok(cancels(at, seed)),
            Curve::Instruments => Ok(instruments(at, seed)),
            Curve::All => Ok(0.0),
        }
    }
}

pub fn run(curve: Curve, at: Option<u32>, seed: u64, json: bool) -> Result<(), Failure> {
    let curves = match curve {
        Curve::All => vec![Curve::Untouched, Curve::Cancels, Curve::Instruments],
        one => vec![one],
    };
    for curve in curves {
        let points: Vec<u32> = at.map_or_else(|| curve.points().to_vec(), |at| vec![at]);
        // Round by round: what else the machine does meets every point alike.
        let mut times = vec![Vec::new(); points.len()];
        for round in 0..ROUNDS {
            for (times, at) in times.iter_mut().zip(&points) {
                times.push(curve.measure(*at, seed + round as u64)?);
            }
        }
        print(curve, &points, &times.iter_mut().map(|times| median(times)).collect::<Vec<_>>(), json);
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn print(curve: Curve, points: &[u32], times: &[f64], json: bool) {
    let Some(first) = times.first() else { return };
    for (at, ns) in points.iter().zip(times) {
        let ratio = ns / first;
        if json {
            say(&format!("{{\"curve\":\"{}\",\"at\":{at},\"ns_per_op\":{ns:.2},\"ratio\":{ratio:.3}}}", curve.name()));
        } else {
            say(&format!("{:<12} {at:>9}   {ns:>7.2} ns   {ratio:>5.2} x", curve.name()));
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn per_operation(elapsed: Duration, operations: usize) -> f64 {
    elapsed.as_nanos() as f64 / operations.max(1) as f64
}

/// Time this thread has had a core: what else the machine does counts as little as can be.
fn busy() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn limit(id: u64, side: Side, price: i64, quantity: u32) -> Operation {
    // Prices lie some thousands of ticks around a million.
    let price = u32::try_from(price).unwrap_or(1);
    Operation { kind: Kind::Limit, side, price, id: id.wrapping_mul(0xD134_2543_DE82_EF95), quantity }
}

/// An order from `nearest` ticks off the middle to `farthest`, on either side.
fn somewhere(random: &mut Random, id: u64, nearest: u64, farthest: u64) -> Operation {
    let away = i64::try_from(nearest + random.below(farthest - nearest)).unwrap_or(i64::MAX);
    let quantity = 1 + u32::try_from(random.below(100)).unwrap_or(0);
    if random.below(2) == 0 {
        limit(id, Side::Buy, MID - away, quantity)
    } else {
        limit(id, Side::Sell, MID + away, quantity)
    }
}

fn untouched(resting: u32, seed: u64) -> Result<f64, Failure> {
    let mut generator = Generator::new(seed, NEAR);
    let warm_up: Vec<Operation> = (0..2 * NEAR).map(|_| generator.step()).collect();
    let stream: Vec<Operation> = (0..STREAM).map(|_| generator.step()).collect();
    let mut random = Random(seed);
    let mut book = BareBook::new(NEAR);
    let mut reports = Reports::with_room_for(STREAM);
    let far: Vec<Operation> =
        (0..u64::from(resting)).map(|at| somewhere(&mut random, RESTING_IDS + at, 1_000, 11_000)).collect();
    for operation in far.iter().chain(&warm_up) {
        book.apply(0, operation, &mut reports);
    }
    reports.clear();
    let took = timed_stream(&mut book, &stream, &mut reports);
    if far.iter().any(|operation| !book.is_live(operation.id)) {
        return Err(Failure::new(format!("seed {seed} trades with orders that are to rest untouched; take another")));
    }
    Ok(per_operation(took, stream.len()))
}

/// On its own and never inlined, so that an instruction counter can be told to count here and nowhere else.
#[inline(never)]
fn timed_stream(book: &mut BareBook, stream: &[Operation], reports: &mut Reports) -> Duration {
    let started = busy();
    for (at, operation) in stream.iter().enumerate() {
        book.look_ahead(|n| stream.get(at + n).map(|operation| (InstrumentId(0), operation)));
        book.apply(0, operation, reports);
    }
    busy() - started
}

/// Half the live orders, in random order; refilled outside the clock until enough have been cancelled.
fn cancels(live: u32, seed: u64) -> f64 {
    let mut random = Random(seed);
    let mut book = BareBook::new(live as usize);
    let mut reports = Reports::with_room_for(live as usize);
    let mut ids = Vec::new();
    let (mut took, mut cancelled, mut next_id) = (Duration::ZERO, 0, 1);
    while cancelled < STREAM / 4 {
        while ids.len() < live as usize {
            let operation = somewhere(&mut random, next_id, 1, 1_000);
            next_id += 1;
            book.apply(0, &operation, &mut reports);
            ids.push(operation.id);
        }
        for at in (1..ids.len()).rev() {
            ids.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap_or(0));
        }
        let half = ids.split_off(ids.len() / 2);
        let half: Vec<Operation> = half
            .into_iter()
            .map(|id| Operation { kind: Kind::Cancel, side: Side::Buy, price: 0, id, quantity: 0 })
            .collect();
        reports.clear();
        took += timed_stream(&mut book, &half, &mut reports);
        reports.clear();
        cancelled += half.len();
    }
    per_operation(took, cancelled)
}

fn instruments(count: u32, seed: u64) -> f64 {
    let (filling, stream) = zipf_streams(count, seed);
    let mut books = Bare::with_instruments(count as usize);
    let mut reports = Reports::with_room_for(STREAM);
    for (at, operation) in &filling {
        books.apply_at(0, *at, operation, &mut reports);
    }
    reports.clear();
    per_operation(timed_among_many(&mut books, &stream, &mut reports), stream.len())
}

/// The same among many books.
#[inline(never)]
fn timed_among_many(books: &mut Bare<Many>, stream: &[Placed], reports: &mut Reports) -> Duration {
    let started = busy();
    for (seq, (at, operation)) in stream.iter().enumerate() {
        books.look_ahead(|n| stream.get(seq + n).map(|(at, operation)| (*at, operation)));
        books.apply_at(0, *at, operation, reports);
    }
    busy() - started
}

type Placed = (InstrumentId, Operation);

/// What fills each book, and then a mixed stream in which instrument n has a share in proportion to 1 / (n + 1).
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn zipf_streams(count: u32, seed: u64) -> (Vec<Placed>, Vec<Placed>) {
    let total: f64 = (1..=count).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut random = Random(seed);
    let heat: Vec<f64> = (1..=count)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank) / total;
            Some(*sum)
        })
        .collect();
    let schedule: Vec<u32> = (0..STREAM)
        .map(|_| {
            let drawn = random.below(1 << 52) as f64 / (1_u64 << 52) as f64;
            (heat.partition_point(|sum| *sum < drawn) as u32).min(count - 1)
        })
        .collect();
    let mut wanted = vec![0_usize; count as usize];
    for at in &schedule {
        wanted[*at as usize] += 1;
    }
    let mut filling = Vec::new();
    let streams: Vec<Vec<Operation>> = (0..count)
        .map(|at| {
            let depth = (LIVE as f64 / total / f64::from(at + 1)) as usize;
            let mut generator =
                Generator::sharing_ids(seed ^ random.next(), depth.max(4), u64::from(at) + 1, u64::from(count));
            while generator.is_filling() {
                filling.push((InstrumentId(at), generator.step()));
            }
            (0..wanted[at as usize]).map(|_| generator.step()).collect()
        })
        .collect();
    let mut streams: Vec<_> = streams.into_iter().map(Vec::into_iter).collect();
    let stream = schedule
        .into_iter()
        .filter_map(|at| streams[at as usize].next().map(|operation| (InstrumentId(at), operation)))
        .collect();
    (filling, stream)
}
