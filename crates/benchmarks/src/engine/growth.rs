//! How the time of the bare book grows: with untouched resting orders, with live orders, with
//! instruments.
//!
//! Does        build the book of each point outside the clock, run the points of a curve in turn
//!             for five rounds, and return the median CPU time of an operation at each point.
//! Start at    [`measure`], then [`Curve`].

use std::time::Duration;

use pitwire_failure::Failure;
use pitwire_model::{InstrumentId, Side};
use pitwire_random::SplitMix64;
use rustix::time::{ClockId, clock_gettime};

use super::bare_book::{BareBook, IndexedBooks, ManyBooks};
use super::generate::{Generator, LIVE, MID};
use super::matcher::Matcher;
use super::operations::{Operation, OperationKind};
use super::reports::Reports;
use crate::BenchProgress;

/// The quantity that grows along a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Resting orders far from the best prices, under the same stream near them.
    Untouched,
    /// Live orders that cancels choose from uniformly.
    Cancels,
    /// Instruments under mixed flow, with shares in proportion to 1, 1/2, 1/3 and so on.
    Instruments,
}

/// Rounds over all points. The result of a point is its median.
pub const ROUNDS: usize = 5;
/// Operations of a stream.
const STREAM: usize = 1_000_000;
/// Live orders of the stream near the best prices.
const NEAR: usize = 1_000;
/// First id of the untouched orders. The ids of the generator are other odd multiples.
const RESTING_IDS: u64 = 1 << 40;

impl Curve {
    /// All curves.
    pub const ALL: [Curve; 3] = [Curve::Untouched, Curve::Cancels, Curve::Instruments];

    /// Returns the name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Curve::Untouched => "untouched",
            Curve::Cancels => "cancels",
            Curve::Instruments => "instruments",
        }
    }

    /// Returns the points of the curve, smallest first.
    pub fn points(self) -> &'static [u32] {
        match self {
            Curve::Untouched | Curve::Cancels => &[100, 1_000, 10_000, 100_000, 1_000_000],
            Curve::Instruments => &[1, 10, 100, 1_000, 10_000],
        }
    }

    /// Returns the CPU time of an operation in nanoseconds.
    fn measure(self, at: u32, seed: u64) -> Result<f64, Failure> {
        match self {
            Curve::Untouched => untouched(at, seed),
            Curve::Cancels => Ok(cancels(at, seed)),
            Curve::Instruments => Ok(instruments(at, seed)),
        }
    }
}

/// Returns the median CPU time of an operation in nanoseconds at each of `points`.
///
/// `progress` counts one step for each point in each of [`ROUNDS`].
///
/// # Errors
///
/// Returns a failure if the seed makes a stream that trades with orders that must stay untouched.
pub fn measure(curve: Curve, points: &[u32], seed: u64, progress: &BenchProgress) -> Result<Vec<f64>, Failure> {
    // Round by round, so that other load of the machine affects all points alike.
    let mut times = vec![Vec::new(); points.len()];
    for round in 0..ROUNDS {
        for (times, at) in times.iter_mut().zip(points) {
            times.push(curve.measure(*at, seed + round as u64)?);
            progress.add(1);
        }
    }
    Ok(times.iter_mut().map(|times| median(times)).collect())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[allow(clippy::cast_precision_loss)]
fn per_operation(elapsed: Duration, operations: usize) -> f64 {
    elapsed.as_nanos() as f64 / operations.max(1) as f64
}

/// Returns the CPU time of this thread, which other load of the machine affects least.
fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn limit(id: u64, side: Side, price: i64, quantity: u32) -> Operation {
    // Prices are within some thousands of ticks of a million.
    let price = u32::try_from(price).unwrap_or(1);
    Operation { kind: OperationKind::Limit, side, price, id: id.wrapping_mul(0xD134_2543_DE82_EF95), quantity }
}

/// Returns an order on a random side, from `nearest` to `farthest` ticks away from the middle.
fn random_limit(random: &mut SplitMix64, id: u64, nearest: u64, farthest: u64) -> Operation {
    let away = i64::try_from(nearest + random.remainder(farthest - nearest)).unwrap_or(i64::MAX);
    let quantity = 1 + u32::try_from(random.remainder(100)).unwrap_or(0);
    if random.remainder(2) == 0 {
        limit(id, Side::Buy, MID - away, quantity)
    } else {
        limit(id, Side::Sell, MID + away, quantity)
    }
}

fn untouched(resting: u32, seed: u64) -> Result<f64, Failure> {
    let mut generator = Generator::new(seed, NEAR);
    let warm_up: Vec<Operation> = (0..2 * NEAR).map(|_| generator.step()).collect();
    let stream: Vec<Operation> = (0..STREAM).map(|_| generator.step()).collect();
    let mut random = SplitMix64::new(seed);
    let mut book = BareBook::new(NEAR);
    let mut reports = Reports::with_room_for(STREAM);
    let far: Vec<Operation> =
        (0..u64::from(resting)).map(|at| random_limit(&mut random, RESTING_IDS + at, 1_000, 11_000)).collect();
    for operation in far.iter().chain(&warm_up) {
        book.apply(0, operation, &mut reports);
    }
    reports.clear();
    let took = timed_stream(&mut book, &stream, &mut reports);
    if far.iter().any(|operation| !book.is_live(operation.id)) {
        return Err(Failure::new(format!(
            "seed {seed} trades with orders that must stay untouched; choose another seed"
        )));
    }
    Ok(per_operation(took, stream.len()))
}

/// Never inlined, so that an instruction counter can count this function alone.
#[inline(never)]
fn timed_stream(book: &mut BareBook, stream: &[Operation], reports: &mut Reports) -> Duration {
    let started = thread_cpu_time();
    for (at, operation) in stream.iter().enumerate() {
        book.look_ahead(|n| stream.get(at + n).map(|operation| (InstrumentId(0), operation)));
        book.apply(0, operation, reports);
    }
    thread_cpu_time() - started
}

/// Cancels half of the live orders in random order, and refills the book outside the clock until
/// enough were cancelled.
fn cancels(live: u32, seed: u64) -> f64 {
    let mut random = SplitMix64::new(seed);
    let mut book = BareBook::new(live as usize);
    let mut reports = Reports::with_room_for(live as usize);
    let mut ids = Vec::new();
    let (mut took, mut cancelled, mut next_id) = (Duration::ZERO, 0, 1);
    while cancelled < STREAM / 4 {
        while ids.len() < live as usize {
            let operation = random_limit(&mut random, next_id, 1, 1_000);
            next_id += 1;
            book.apply(0, &operation, &mut reports);
            ids.push(operation.id);
        }
        for at in (1..ids.len()).rev() {
            ids.swap(at, usize::try_from(random.remainder(at as u64 + 1)).unwrap_or(0));
        }
        let half = ids.split_off(ids.len() / 2);
        let half: Vec<Operation> = half
            .into_iter()
            .map(|id| Operation { kind: OperationKind::Cancel, side: Side::Buy, price: 0, id, quantity: 0 })
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
    let mut books = IndexedBooks::with_instruments(count as usize);
    let mut reports = Reports::with_room_for(STREAM);
    for (at, operation) in &filling {
        books.apply_at(0, *at, operation, &mut reports);
    }
    reports.clear();
    per_operation(timed_among_many(&mut books, &stream, &mut reports), stream.len())
}

/// Like [`timed_stream`], over many books.
#[inline(never)]
fn timed_among_many(
    books: &mut IndexedBooks<ManyBooks>,
    stream: &[PlacedOperation],
    reports: &mut Reports,
) -> Duration {
    let started = thread_cpu_time();
    for (seq, (at, operation)) in stream.iter().enumerate() {
        books.look_ahead(|n| stream.get(seq + n).map(|(at, operation)| (*at, operation)));
        books.apply_at(0, *at, operation, reports);
    }
    thread_cpu_time() - started
}

/// An operation with its instrument.
type PlacedOperation = (InstrumentId, Operation);

/// Returns the operations that fill each book, and a mixed stream in which instrument n has a share
/// in proportion to 1 / (n + 1).
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn zipf_streams(count: u32, seed: u64) -> (Vec<PlacedOperation>, Vec<PlacedOperation>) {
    let total: f64 = (1..=count).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut random = SplitMix64::new(seed);
    let heat: Vec<f64> = (1..=count)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank) / total;
            Some(*sum)
        })
        .collect();
    let schedule: Vec<u32> = (0..STREAM)
        .map(|_| {
            let drawn = random.remainder(1 << 52) as f64 / (1_u64 << 52) as f64;
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
