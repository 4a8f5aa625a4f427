//! libFuzzer at the JSON-RPC dialect.
#![no_main]

mod seeds;

use pitwire_hostile_input::json_rpc as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
