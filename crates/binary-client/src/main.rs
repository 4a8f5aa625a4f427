//! The programs of the reference client: `orders`, `feed` and `bench`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use pitwire_binary_client::benchmark::{self, BenchmarkOptions, Cores};
use pitwire_binary_client::{Login, feed, orders};
use pitwire_failure::Failure;
use pitwire_sbe_gateway::FixedDecimal;

const USAGE: &str = "usage: pitwire-sbe COMMAND
  orders ADDRESS INSTRUMENT_ID PRICE CLIENT_ID:SECRET CLIENT_ID:SECRET
  feed LINE_A[,LINE_B] RECOVERY
  bench [--cores CLIENT,VENUE] ADDRESS INSTRUMENT_ID PRICE RATE ORDERS ROUNDS CLIENT_ID:SECRET...
An address is HOST:PORT. RATE is in orders a second, over all clients. With --cores the clients run
on core CLIENT and the servers of the ping-pongs on core VENUE, where the venue should run, too.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            eprintln!("error: {failure}");
            if code == 2 {
                eprintln!("{USAGE}");
            }
            ExitCode::from(code)
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    if let ["bench", "--cores", numbers, rest @ ..] = words {
        return bench(rest, Some(cores(numbers)?));
    }
    match *words {
        ["orders", at, instrument, price, maker, taker] => {
            orders::run(address(at)?, number(instrument)?, decimal(price)?, login(maker)?, login(taker)?)
        }
        ["feed", lines, recovery] => {
            feed::run(lines.split(',').map(address).collect::<Result<_, _>>()?, address(recovery)?)
        }
        ["bench", ref rest @ ..] => bench(rest, None),
        [] => Err(Failure::usage("no command")),
        [command, ..] => Err(Failure::usage(format!("command {command} with {} words", words.len()))),
    }
}

fn bench(words: &[&str], cores: Option<Cores>) -> Result<(), Failure> {
    match *words {
        [at, instrument, price, rate, orders, rounds, ref logins @ ..] if !logins.is_empty() => {
            benchmark::run(BenchmarkOptions {
                address: address(at)?,
                instrument: number(instrument)?,
                price: decimal(price)?,
                rate: number(rate)?,
                orders: number(orders)?,
                rounds: number(rounds)?,
                cores,
                logins: logins.iter().map(|text| login(text)).collect::<Result<_, _>>()?,
            })
        }
        _ => Err(Failure::usage(format!("command bench with {} words", words.len() + 1))),
    }
}

fn cores(text: &str) -> Result<Cores, Failure> {
    let (client, venue) = text
        .split_once(',')
        .ok_or_else(|| Failure::usage(format!("invalid cores {text}: expected two numbers, as in 0,1")))?;
    Ok(Cores { client: number(client)?, venue: number(venue)? })
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::usage(format!("invalid address {text}: expected HOST:PORT")))
}

fn number(text: &str) -> Result<u32, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("invalid number {text}: expected 0 to {}", u32::MAX)))
}

fn decimal(text: &str) -> Result<FixedDecimal, Failure> {
    FixedDecimal::parse(text)
        .ok_or_else(|| Failure::usage(format!("invalid number {text}: expected at most eight decimals")))
}

fn login(text: &str) -> Result<Login, Failure> {
    match text.split_once(':') {
        Some((client_id, secret)) if !client_id.is_empty() => {
            Ok(Login { client_id: client_id.to_owned(), secret: secret.to_owned() })
        }
        _ => Err(Failure::usage("invalid account: expected CLIENT_ID:SECRET")),
    }
}
