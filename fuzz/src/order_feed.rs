//! libFuzzer at the decoder of the order-by-order feed.
#![no_main]

mod seeds;

use pitwire_hostile_input::order_feed as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
