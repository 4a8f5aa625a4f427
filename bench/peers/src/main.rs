//! Runs the same operations through this engine's book and other order books.
//!
//! Does        load a file of `pitwire engine-bench` operations, translate it for each book outside
//!             the clock, run the books in turn for some rounds, and print medians, ratios and the
//!             lots each traded.
//! Leaves out  replaces: no two of these books mean the same by one. A file with a replace in it is
//!             refused.
//! Known gap   nanobook 0.19.3 does not finish the mixed flow: it finds a cancelled order by its
//!             place in the queue at entry, which trades have shifted, and then waits on a level
//!             with lots and without orders. It takes part in `--apart` only. matchcore 0.4.0
//!             trades past some limits, so its lots differ by about one in a hundred.
//!
//! Each operation is one call on one thread. Its answer is kept from the optimiser:
//! ours          `Book` and `OrderIndex` as in `--mode book`: arbitrary ids, every report written
//!               to a buffer.
//! matchcore     `OrderBook::execute` of a command made beforehand; it numbers orders itself, so
//!               ids are its own.
//! nanobook      `Exchange::submit_limit`, `submit_market`, `cancel`, without its event log; it
//!               numbers orders itself. It keeps all orders and trades it has seen, as it is made
//!               to do; nothing is cleared in between.
//! orderbook-rs  `OrderBook::add_limit_order`, `submit_market_order`, `cancel_order` with 64-bit
//!               ids; no listeners, no self-trade prevention, no fees. A market order that finds
//!               too little is an error there, not a remainder.

mod peers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pitwire_benchmarks::engine::operations::{self, Operation, OperationKind};
use pitwire_failure::Failure;

/// Runs a file of operations through our book and three others.
#[derive(Parser)]
struct Arguments {
    /// A file of operations: `pitwire engine-bench --generate 5000000 --ops FILE` writes one.
    #[arg(long, value_name = "FILE")]
    ops: PathBuf,
    /// How often each book runs; they take turns.
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Enter and cancel only: no takers, bids and offers too far apart to meet. What all of these
    /// books can do.
    #[arg(long)]
    apart: bool,
    /// Leave out books whose names begin so; may be given again.
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
}

/// A run's seconds and the lots it traded.
struct Run {
    seconds: f64,
    traded: u64,
}

type Book = (&'static str, fn(&[Operation]) -> Run);

const BOOKS: [Book; 4] = [
    ("ours", peers::ours),
    ("matchcore 0.4.0", peers::matchcore),
    ("nanobook 0.19.3", peers::nanobook),
    ("orderbook-rs 0.15.3", peers::orderbook_rs),
];

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("peers: {failure}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let operations = operations::load(&arguments.ops)?;
    if let Some(at) = operations.iter().position(|operation| operation.kind == OperationKind::Replace) {
        return Err(Failure::usage(format!("operation {at} is a replace, which these books do not share")));
    }
    let operations = if arguments.apart { apart(operations) } else { operations };
    let left_out = |name: &str| {
        (name.starts_with("nanobook") && !arguments.apart)
            || arguments.without.iter().any(|without| name.starts_with(without.as_str()))
    };
    let books: Vec<Book> = BOOKS.into_iter().filter(|(name, _)| !left_out(name)).collect();
    let mut seconds = vec![Vec::new(); books.len()];
    let mut traded = vec![0; books.len()];
    for _ in 0..arguments.rounds.max(1) {
        for (at, (_, book)) in books.iter().enumerate() {
            let run = book(&operations);
            seconds[at].push(run.seconds);
            traded[at] = run.traded;
        }
    }
    print(&operations, &books, &mut seconds, &traded);
    Ok(())
}

/// Returns the entries and cancels, with offers a million ticks higher.
fn apart(operations: Vec<Operation>) -> Vec<Operation> {
    operations
        .into_iter()
        .filter(|operation| matches!(operation.kind, OperationKind::Limit | OperationKind::Cancel))
        .map(|operation| {
            let raised = u32::from(operation.side == pitwire_model::Side::Sell) * 1_000_000;
            Operation { price: operation.price.saturating_add(raised), ..operation }
        })
        .collect()
}

#[allow(clippy::cast_precision_loss)]
fn print(operations: &[Operation], books: &[Book], seconds: &mut [Vec<f64>], traded: &[u64]) {
    let mut ours = 0.0;
    for ((name, _), (seconds, traded)) in books.iter().zip(seconds.iter_mut().zip(traded)) {
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        if ours == 0.0 {
            ours = median;
        }
        let millions = operations.len() as f64 / median / 1e6;
        println!("{name:<20} {millions:>8.2} M ops/s   ours is {:>6.2} x   traded {traded} lots", median / ours);
    }
}
