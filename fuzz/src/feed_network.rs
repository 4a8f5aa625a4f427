//! libFuzzer at the reader of the order-by-order feed and its recovery.
#![no_main]

mod seeds;

use pitwire_hostile_input::feed_network as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
