//! Serves one stream of synthetic messages with the library alone.
//!
//!     cargo run --release -p pitwire-publisher --example serve -- 127.0.0.1:9000 1000 190 1 uring

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pitwire_net::monotonic_ns;
use pitwire_publisher::{Channels, LagPolicy, LoopKind, MessageBatch, Options, Publisher, StreamSpec, SyntheticSource};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut next = |otherwise: &str| words.next().unwrap_or_else(|| otherwise.to_owned());
    let listen = next("127.0.0.1:9000").parse()?;
    let (rate, bytes): (f64, usize) = (next("100").parse()?, next("190").parse()?);
    let threads = next("1").parse()?;
    let kind = if next("epoll") == "uring" { LoopKind::Uring } else { LoopKind::Epoll };
    let channels = Arc::new(Channels::default());
    let options = Options { listen: Some(listen), threads, kind, ..Options::default() };
    let publisher = Publisher::start(options, Arc::clone(&channels) as _)?;
    let spec = StreamSpec {
        name: "stream".into(),
        lag: LagPolicy::Conflate,
        ring_bytes: 1 << 20,
        snapshot: false,
        keep: true,
    };
    let stream = publisher.create(&spec);
    channels.set_channels(Arc::clone(publisher.statistics()), BTreeMap::new(), Some(stream));
    println!("{}", publisher.address().ok_or("nowhere to listen")?);
    let epoch_ns = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?;
    let mut messages = SyntheticSource::new(rate, bytes, monotonic_ns(), epoch_ns);
    let (mut batch, mut text) = (MessageBatch::default(), Vec::new());
    loop {
        while messages.due_ns() <= monotonic_ns() {
            text.clear();
            let seq = messages.next(&mut text);
            batch.text(stream, b"", seq, &text);
        }
        publisher.send(&mut batch);
        std::thread::sleep(Duration::from_nanos(messages.due_ns().saturating_sub(monotonic_ns())));
    }
}
