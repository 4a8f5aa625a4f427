//! Counting what a dead worker left behind.

use super::*;

fn stream(records: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        out.extend(record.as_bytes());
    }
    out
}

/// Wherever the worker stopped reading, what it did not get whole is counted.
#[test]
fn a_stream_cut_anywhere_is_counted() {
    let records = ["{}", "{\"sym\":\"A\",\"p\":1}", "{\"a\":{\"b\":\"}\"}}", "{\"ev\":\"T\",\"sym\":\"BRK.A\"}", "{}"];
    let bytes = stream(&records);
    let mut ends = Vec::new();
    let mut at = 0;
    for record in records {
        at += 4 + record.len();
        ends.push(at);
    }
    for cut in 0..=bytes.len() {
        let whole_before = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(count_records(&bytes[cut..]), (records.len() - whole_before) as u64, "cut {cut}");
    }
}
