//! The cost of a hand-over, from memory, in nanoseconds of CPU time of this thread per trade.
//!
//!     cargo run --release -p pitwire-splitter --example route -- pipe|shm|shm-ref|copy WORKERS
//!     TRADES_PER_FRAME
//!
//! Cycles through 256 KiB of frames of 99-byte trades. Built-in counters read them on another core.
//! `copy` only copies the records to 64 KiB per worker, for comparison.

use std::time::{Duration, Instant};

use pitwire_feed::Object;
use pitwire_shard::copy_record;
use pitwire_splitter::{
    SlowWorkerPolicy, StreamCounts, Transport, TransportOptions, open_pipe, open_shm, open_shm_ref,
};
use rustix::time::{ClockId, clock_gettime};

const READ_BYTES: usize = 256 << 10;
/// The example waits, unmeasured, for a worker that lags by more than this many bytes.
const LAG_BYTES: u64 = 256 << 10;
const RUN: Duration = Duration::from_secs(2);

struct Frame {
    text: Vec<u8>,
    objects: Vec<Object>,
}

fn frames(workers: u32, trades: usize) -> Vec<Frame> {
    let (mut frames, mut bytes, mut number) = (Vec::new(), 0, 0_u32);
    while bytes < READ_BYTES {
        let (mut text, mut objects) = (vec![b'['], Vec::new());
        for _ in 0..trades {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let symbol = number >> 8 & 0xFFF;
            let start = u32::try_from(text.len()).unwrap();
            let trade = format!(
                "{{\"ev\":\"T\",\"sym\":\"S{symbol:03X}\",\"i\":\"{:012}\",\"x\":4,\"p\":114.125,\"s\":100,\"c\":[37],\"t\":1536036818784,\"z\":3}}",
                number % 1000
            );
            text.extend_from_slice(trade.as_bytes());
            objects.push(Object { start, end: u32::try_from(text.len()).unwrap(), worker: symbol % workers });
            text.push(b',');
        }
        text.pop();
        text.push(b']');
        bytes += text.len();
        frames.push(Frame { text, objects });
    }
    frames
}

/// Places as many frames as fit into `space`.
fn received<'a>(frames: &[Frame], mut space: &'a mut [u8]) -> Vec<&'a [u8]> {
    let mut texts = Vec::new();
    for frame in frames {
        let Some((text, rest)) = space.split_at_mut_checked(frame.text.len()) else { break };
        text.copy_from_slice(&frame.text);
        texts.push(&*text);
        space = rest;
    }
    texts
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// A transport that only copies the records.
struct Copy {
    stages: Vec<(Vec<u8>, usize)>,
}

impl Transport for Copy {
    fn send_objects(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            let (stage, at) = &mut self.stages[object.worker as usize];
            let (start, end) = (object.start as usize, object.end as usize);
            // SAFETY: the stage has a KiB behind the last offset where a record may begin.
            unsafe { copy_record(text, start, end, stage.as_mut_ptr().add(*at)) };
            *at = (*at + end - start + 4) & 0xFFFF;
        }
    }

    fn send_note(&mut self, _: u32, _: &[u8]) {}

    fn hand_over(&mut self) {}

    fn finish(&mut self, _: Duration) -> Result<pitwire_splitter::TransportSummary, pitwire_splitter::TransportError> {
        Ok(pitwire_splitter::TransportSummary::default())
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "shm".into());
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (workers, trades) = (u32::try_from(number(8)).unwrap(), number(128));
    let mut options = TransportOptions::new(workers);
    options.policy = SlowWorkerPolicy::Block;
    let mut transport: Box<dyn Transport> = match kind.as_str() {
        "pipe" => open_pipe(options).unwrap(),
        "shm" => open_shm(options).unwrap(),
        "shm-ref" => open_shm_ref(options).unwrap(),
        _ => Box::new(Copy { stages: (0..workers).map(|_| (vec![0; 0x10000 + 1024], 0)).collect() }),
    };
    let frames = frames(workers, trades);
    let average = frames.iter().map(|frame| frame.text.len()).sum::<usize>() / frames.len() / trades;
    let (started, mut used, mut dealt) = (Instant::now(), 0, 0_u64);
    while started.elapsed() < RUN {
        // The kernel writes a receive buffer, so filling it is not measured.
        let mut receive_buffer = transport.receive_buffer();
        let lands = receive_buffer.is_some();
        let texts: Vec<&[u8]> = match &mut receive_buffer {
            None => frames.iter().map(|frame| &frame.text[..]).collect(),
            Some(receive_buffer) => received(&frames, receive_buffer.space()),
        };
        transport.commit_received(if lands { texts.iter().map(|text| text.len()).sum() } else { 0 });
        let before = ns(ClockId::ThreadCPUTime);
        for (frame, text) in frames.iter().zip(texts) {
            transport.send_objects(text, &frame.objects);
            dealt += frame.objects.len() as u64;
        }
        transport.hand_over();
        used += ns(ClockId::ThreadCPUTime) - before;
        // Waits here and not in `block`, so that waiting is not measured.
        while kind != "copy" && (0..workers).any(|worker| transport.pending_bytes(worker) > LAG_BYTES) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    let took = started.elapsed();
    let summary = transport.finish(Duration::from_secs(5)).unwrap();
    let counters = ns(ClockId::ProcessCPUTime).saturating_sub(ns(ClockId::ThreadCPUTime));
    let counted = StreamCounts::sum(&summary.counted);
    println!(
        "{kind} {workers} workers, {trades} a frame, {average} bytes a trade: {:.1} M trades/s, {:.2} ns of processor a trade, \
         {:.2} ns for the counters; dealt {dealt}, counted {}, dropped {}",
        dealt as f64 / took.as_secs_f64() / 1e6,
        used as f64 / dealt as f64,
        counters as f64 / dealt as f64,
        counted.trades,
        summary.totals.dropped
    );
}
