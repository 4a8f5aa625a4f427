//! The short form of `make fuzz`: every seed, every input that once failed, and some mutations of
//! them.

use pitwire_random::SplitMix64;
use std::fs;
use std::path::{Path, PathBuf};

use pitwire_hostile_input::mutate::mutated;
use pitwire_hostile_input::{
    binary_entry, capture, feed, feed_network, frames, handshake, journal, json_rpc, order_feed,
};

/// Mutations per target. `make fuzz` runs a million, guided by coverage.
const MUTATIONS: usize = 4_000;

/// Inputs that once failed: see fuzz/README.md.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/kept").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    files.iter().filter_map(|file| fs::read(file).ok()).collect()
}

/// `TEST_SEED=…` repeats a run; otherwise every run is another one.
fn test_seed() -> u64 {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.subsec_nanos().into());
    std::env::var("TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now)
}

fn drive(target: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    let seed = test_seed();
    println!("TEST_SEED={seed} repeats this");
    let mut inputs = seeds.to_vec();
    inputs.extend(kept(target));
    inputs.iter().for_each(|input| run(input));
    let mut random = SplitMix64::new(seed);
    for _ in 0..MUTATIONS {
        let (input, other) = (&inputs[random.index(inputs.len())], &inputs[random.index(inputs.len())]);
        run(&mutated(input, other, &mut random));
    }
}

#[test]
fn every_request_gets_one_answer() {
    let seeds = json_rpc::seeds();
    assert!(seeds.len() > 60, "one for each method at least");
    drive("json_rpc", &seeds, json_rpc::run);
}

#[test]
fn recovery_of_any_bytes_succeeds_or_is_refused() {
    let seeds = journal::seeds();
    assert!(seeds.len() > 100, "{}", seeds.len());
    drive("journal", &seeds, journal::run);
}

#[test]
fn any_bytes_are_cut_as_the_slow_cutter_cuts_them() {
    let seeds = feed::seeds();
    assert!(seeds.len() > 40, "{}", seeds.len());
    drive("feed", &seeds, feed::run);
}

#[test]
fn frames_are_read_as_the_plain_reader_reads_them() {
    let seeds = frames::seeds();
    assert!(seeds.len() > 25, "{}", seeds.len());
    drive("frames", &seeds, frames::run);
}

#[test]
fn accepted_handshake_is_valid_for_every_parser() {
    let seeds = handshake::seeds();
    assert!(seeds.len() > 15, "{}", seeds.len());
    drive("handshake", &seeds, handshake::run);
}

#[test]
fn order_feed_is_decoded_or_refused_without_a_change() {
    let seeds = order_feed::seeds();
    assert!(seeds.len() > 20, "{}", seeds.len());
    drive("order_feed", &seeds, order_feed::run);
}

#[test]
fn feed_readers_and_recovery_keep_their_order_and_bounds() {
    drive("feed_network", &feed_network::seeds(), feed_network::run);
}

#[test]
fn binary_order_entry_keeps_the_bytes_of_a_message() {
    let seeds = binary_entry::seeds();
    assert!(seeds.len() > 20, "{}", seeds.len());
    drive("binary_entry", &seeds, binary_entry::run);
}

#[test]
fn captures_of_any_form_have_the_same_messages() {
    let seeds = capture::seeds();
    assert!(seeds.len() > 15, "{}", seeds.len());
    drive("capture", &seeds, capture::run);
}
