//! Follows the order-by-order feed and prints the books on request.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use pitwire_failure::Failure;
use pitwire_model::{Decimal, Side};
use pitwire_order_feed_network::{FeedEncoding, FeedReader, ReaderError, ReaderOptions};

const POLL: Duration = Duration::from_millis(20);
/// Time in which a venue that has stopped must come back.
const REJOIN_PATIENCE: Duration = Duration::from_secs(30);

/// Prints the books for each line of the standard input. Ends with the input.
///
/// # Errors
///
/// Fails if a line cannot be received, or if the recovery port does not answer.
pub fn run(lines: Vec<SocketAddr>, recovery: SocketAddr) -> Result<(), Failure> {
    let line_count = lines.len();
    let options = ReaderOptions { lines, recovery, encoding: FeedEncoding::Mitch, source: None, interface: None };
    let mut reader = FeedReader::join(options).map_err(failure)?;
    println!("joined after message {}; press Enter for the books", reader.next_number().saturating_sub(1));
    let requests = input_lines();
    let mut joined_at = Instant::now();
    loop {
        match (reader.poll(POLL, &mut |_, _| {}), reader.is_joined()) {
            (_, true) => joined_at = Instant::now(),
            (Err(error), false) if joined_at.elapsed() > REJOIN_PATIENCE => return Err(failure(error)),
            // The next poll joins again.
            (Err(_), false) => std::thread::sleep(POLL),
            (Ok(()), false) => {}
        }
        loop {
            match requests.try_recv() {
                Ok(()) => print_books(&reader, line_count),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Receives one value for each line of the standard input, until it ends.
fn input_lines() -> Receiver<()> {
    let (sender, requests) = channel();
    // The thread ends with the input, or with the process.
    std::thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|_| sender.send(())));
    requests
}

fn print_books(reader: &FeedReader, line_count: usize) {
    let books = reader.books();
    for (id, state) in books.instruments() {
        let Some(directory) = &state.directory else { continue };
        let lot = directory.contract_multiplier.decimal();
        for (side, title) in [(Side::Buy, "bid"), (Side::Sell, "ask")] {
            let mut levels: Vec<(Decimal, i128)> = Vec::new();
            for order in books.orders(id, side) {
                let (price, lots) = (order.price.decimal(), i128::from(order.quantity));
                match levels.last_mut() {
                    Some((of, total)) if *of == price => *total += lots,
                    _ => levels.push((price, lots)),
                }
            }
            for (price, lots) in levels {
                println!("{} {title} {:#} @ {price:#}", directory.symbol.text(), lot.times(lots));
            }
        }
    }
    let counts = reader.counts();
    let lines: Vec<_> = (0..line_count).map(|line| reader.line_counts(line)).collect();
    let first: Vec<String> = lines.iter().map(|line| line.first.to_string()).collect();
    println!(
        "books after message {}; messages {}, first by line {}, duplicates {}, invalid {}, foreign {}, replays {}, \
         snapshots {}",
        reader.next_number().saturating_sub(1),
        counts.messages,
        first.join(" "),
        counts.duplicates,
        lines.iter().map(|line| line.invalid).sum::<u64>(),
        lines.iter().map(|line| line.foreign).sum::<u64>(),
        counts.replays,
        counts.snapshots
    );
}

fn failure(error: ReaderError) -> Failure {
    let remedy = match error {
        ReaderError::Line { .. } => "name an address of this machine, or a multicast group, with a free port",
        ReaderError::Recovery { .. } => {
            "start the venue with --order-feed and --order-feed-recovery, and check the addresses"
        }
    };
    Failure::new(error.to_string()).remedy(remedy)
}
