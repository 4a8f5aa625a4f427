//! Carries sessions of binary order entry over Aeron: IPC and UDP.
//!
//! Does        receive the bytes of each client's publication, pass them on to the TCP port of a
//!             venue, and publish the answers on a stream with the session id of the client.
//! Holds       1. the bytes of a session stay in order, and none is lost while it lives;
//!             2. a client that does not read stops its own session only: the bridge then reads no
//!                more of that session's answers, and the venue closes it;
//!             3. the end of one side ends the other.
//! Leaves out  the media driver, which is a separate process, and the messages: `sbe-gateway`.
//! Start at    [`bridge::Bridge`]; `docs/aeron.md` describes the channels.

mod bridge;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pitwire_failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bridge::Bridge;

const USAGE: &str = "usage: pitwire-aeron VENUE REQUESTS ANSWERS [AERON_DIR]
  VENUE      HOST:PORT of pitwire up --sbe
  REQUESTS   channel of the requests, such as aeron:ipc or aeron:udp?endpoint=127.0.0.1:9201
  ANSWERS    channel of the answers, such as aeron:ipc or
             aeron:udp?control=127.0.0.1:9202|control-mode=dynamic
  AERON_DIR  directory of the media driver; the default is that of Aeron";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            if failure.exit_code() == 2 {
                eprintln!("{USAGE}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let (venue, requests, answers, directory) = match *words {
        [venue, requests, answers] => (venue, requests, answers, None),
        [venue, requests, answers, directory] => (venue, requests, answers, Some(directory)),
        _ => return Err(Failure::usage(format!("{} arguments: expected 3 or 4", words.len()))),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut bridge = Bridge::open(address(venue)?, requests, answers, directory)?;
    println!("ready");
    bridge.run(&stop)
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::usage(format!("invalid address {text}: expected HOST:PORT")))
}
