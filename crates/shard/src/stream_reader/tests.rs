//! Streams cut at every byte, and wrong lengths.

use super::*;

fn stream(records: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.extend_from_slice(&u32::try_from(record.len()).unwrap().to_le_bytes());
        out.extend_from_slice(record);
    }
    out
}

/// Feeds `bytes` in pieces of at most `step`. Returns the records, the result, and whether the
/// stream may end.
fn read(bytes: &[u8], capacity: usize, step: usize) -> (Vec<Vec<u8>>, Result<(), RingFault>, bool) {
    let mut intake = StreamReader::new(capacity);
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = intake.space();
        let piece = rest.len().min(step).min(space.len());
        assert!(piece > 0, "no room was made");
        space[..piece].copy_from_slice(&rest[..piece]);
        intake.filled(piece);
        rest = &rest[piece..];
        if let Err(fault) = intake.take(|record| found.push(record.to_vec())) {
            return (found, Err(fault), false);
        }
    }
    (found, Ok(()), intake.is_whole())
}

#[test]
fn every_cut_gives_the_same_records() {
    let long = vec![b'x'; 1000];
    let records: [&[u8]; 5] = [b"{}", b"", b"{\"sym\":\"A\"}", &long, b"end"];
    let bytes = stream(&records);
    for step in 1..=bytes.len() {
        let (found, verdict, whole) = read(&bytes, 64, step);
        assert_eq!((found, verdict, whole), (records.map(<[u8]>::to_vec).to_vec(), Ok(()), true), "step {step}");
    }
}

#[test]
fn a_stream_that_ends_inside_a_record_is_incomplete() {
    let bytes = stream(&[b"{}", b"abc"]);
    for cut in 1..bytes.len() {
        let (found, verdict, whole) = read(&bytes[..cut], 64, 7);
        assert_eq!(verdict, Ok(()));
        assert_eq!(whole, cut == 6, "cut {cut}");
        assert_eq!(found.len(), usize::from(cut >= 6));
    }
}

#[test]
fn a_huge_length_is_a_fault_and_allocates_nothing() {
    let mut bytes = stream(&[b"{}"]);
    bytes.extend_from_slice(&0xFFFF_FFF0_u32.to_le_bytes());
    let (found, verdict, _) = read(&bytes, 64, 3);
    assert_eq!(found.len(), 1);
    assert_eq!(verdict, Err(RingFault::Length { found: 0xFFFF_FFF0, at: 6 }));
}
