//! Routing a trade allocates nothing, whether workers read or not.

use std::time::Duration;

use pitwire_counting_allocator::CountingAllocator;
use pitwire_feed::Object;
use pitwire_splitter::{SlowWorkerPolicy, Transport, TransportOptions, WorkerProgram, open_pipe, open_shm};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fn allocations(transport: &mut dyn Transport, rounds: u32) -> u64 {
    let trade =
        br#"{"ev":"T","sym":"AAPL","i":"000000000001","x":4,"p":114.125,"s":100,"c":[37],"t":1536036818784,"z":3}"#;
    let end = u32::try_from(trade.len()).unwrap();
    let objects: Vec<Object> = (0..100).map(|turn| Object { start: 0, end, worker: turn % 4 }).collect();
    let before = CountingAllocator::allocations_of_thread();
    for _ in 0..rounds {
        transport.send_objects(trade, &objects);
        transport.hand_over();
    }
    CountingAllocator::allocations_of_thread() - before
}

/// With the built-in counters, which read everything eventually.
#[test]
fn routing_allocates_nothing() {
    for open in [open_pipe, open_shm] {
        let mut options = TransportOptions::new(4);
        options.policy = SlowWorkerPolicy::Block;
        let mut transport = open(options).unwrap();
        assert_eq!(allocations(&mut *transport, 2_000), 0);
        let summary = transport.finish(Duration::from_secs(20)).unwrap();
        assert_eq!(summary.totals.handed, 200_000);
    }
}

/// With a program that reads nothing.
#[test]
fn a_stopped_worker_causes_no_allocation() {
    for policy in [SlowWorkerPolicy::Spill { bytes: 1 << 20 }, SlowWorkerPolicy::Drop, SlowWorkerPolicy::Conflate] {
        for open in [open_pipe, open_shm] {
            let mut options = TransportOptions::new(4);
            (options.policy, options.ring_bytes) = (policy, 1 << 16);
            let arguments = vec!["-c".into(), "while :; do sleep 1; done".into()];
            options.program = Some(WorkerProgram { command: "sh".into(), arguments, workdir: None });
            let mut transport = open(options).unwrap();
            // Fills the channels and, for conflate, sees each symbol once.
            allocations(&mut *transport, 1_500);
            assert_eq!(allocations(&mut *transport, 2_000), 0, "{policy}");
            assert_eq!(transport.totals().behind, 4);
        }
    }
}
