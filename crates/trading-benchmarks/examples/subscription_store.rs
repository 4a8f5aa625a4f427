//! Finds the subscription of a message: in an array of fixed length, as one trading system keeps
//! them, and in the hash map of the client library. Prints nanoseconds for each lookup.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

const SLOTS: usize = 512;
const LOOKUPS: usize = 2_000_000;

fn name(number: usize) -> String {
    format!("book.STOCK{number:03}_ZAR.raw")
}

#[allow(clippy::cast_precision_loss)]
fn ns_per_lookup(names: &[String], find: impl Fn(&str) -> Option<usize>) -> f64 {
    let begun = Instant::now();
    for number in 0..LOOKUPS {
        // A stride without a common factor, so that the channels take turns without an order.
        let wanted = &names[number * 31 % names.len()];
        assert!(black_box(find(black_box(wanted))).is_some());
    }
    begun.elapsed().as_nanos() as f64 / LOOKUPS as f64
}

fn main() {
    println!("channels  array of {SLOTS}, ns  hash map, ns");
    for count in [1, 10, 100, 500] {
        let names: Vec<String> = (0..count).map(name).collect();
        let mut array: [Option<String>; SLOTS] = [const { None }; SLOTS];
        for (slot, name) in array.iter_mut().zip(&names) {
            *slot = Some(name.clone());
        }
        let map: HashMap<String, usize> = names.iter().cloned().zip(0..).collect();
        let in_array = ns_per_lookup(&names, |wanted| array.iter().position(|slot| slot.as_deref() == Some(wanted)));
        let in_map = ns_per_lookup(&names, |wanted| map.get(wanted).copied());
        println!("{count:8}  {in_array:17.0}  {in_map:12.0}");
    }
}
