//! The batch scan accepts uniform objects, and no batch affects the next one.

use pitwire_websocket::{Frames, Peer};

use super::*;
use crate::symbol_router::SymbolRouter;

fn scanner() -> Option<(Scanner, ScanTables)> {
    let tables = ScanTables { prefixes: PrefixCache::new(), router: SymbolRouter::new(8) };
    SimdLevel::Avx512.is_supported().then(|| (Scanner::new(SimdLevel::Avx512), tables))
}

fn trades(count: usize, filler: usize) -> String {
    let trade = |number: usize| {
        let filler = "x".repeat(filler + number % 7);
        format!(r#"{{"ev":"T","sym":"S{}","n":"{number:030}","f":"{filler}"}}"#, number % 50)
    };
    format!("[{}]", (0..count).map(trade).collect::<Vec<_>>().join(","))
}

/// Makes a frame of more than 125 bytes.
fn frame(payload: &str) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x81, 126], &length[..], payload.as_bytes()].concat()
}

/// Returns how many objects the batch scan finds from the brace at `at` on.
fn alike(scanner: &mut Scanner, tables: &ScanTables, text: &[u8], at: usize) -> Option<usize> {
    let mut out = [Object::default(); RUN_OBJECTS];
    let span = ScanSpan { at, end: text.len(), checked: at };
    scanner.backoff = BatchBackoff::default();
    let scanned = scanner.uniform_objects(text, span, tables, &mut out)?;
    for object in &out[..scanned.objects] {
        assert_eq!(text[object.start as usize..][..17], *br#"{"ev":"T","sym":""#.first_chunk::<17>().unwrap());
        assert_eq!(text[object.end as usize - 1], b'}');
    }
    Some(scanned.objects)
}

#[test]
fn uniform_arrays_are_scanned_at_once_at_any_offset() {
    let Some((mut scanner, tables)) = scanner() else { return };
    for filler in 0..130 {
        for count in [1, 2, 15, 16, 17, 70] {
            let text = frame(&trades(count, filler));
            assert_eq!(alike(&mut scanner, &tables, &text, 5), Some(count), "{count} with {filler}");
            // Up to the incomplete object.
            let cut = alike(&mut scanner, &tables, &text[..text.len() - 3], 5);
            assert_eq!(cut.unwrap_or(0), count - 1);
        }
    }
}

#[test]
fn uniform_frames_are_scanned_at_once() {
    let Some((mut scanner, tables)) = scanner() else { return };
    for filler in 0..130 {
        let text: Vec<u8> = (2..9).flat_map(|count| frame(&trades(count, filler))).collect();
        let frames = Frames::endless(Peer::Server, 1 << 30);
        let mut out = [Object::default(); RUN_OBJECTS];
        scanner.backoff = BatchBackoff::default();
        let found = scanner.messages(&text, 0, |at| frames.peek(&text, at), &tables, &mut out);
        let found = found.map(|found| (found.messages, found.objects, found.end));
        assert_eq!(found, Some((7, 35, text.len())), "with {filler}");
    }
}

#[test]
fn a_declined_batch_does_not_affect_the_next() {
    let Some((mut scanner, tables)) = scanner() else { return };
    let usual = frame(&trades(20, 40));
    for (odd, with) in
        [("xxx", r#"x{x"#), ("xxx", "x\\x"), ("xxx", "x\"x"), ("xxx", "xÄ"), ("},{", "}},"), ("ev", "vv")]
    {
        let text = frame(&trades(20, 40).replacen(odd, with, 1));
        assert_eq!(alike(&mut scanner, &tables, &text, 5), None, "{with}");
        assert_eq!(alike(&mut scanner, &tables, &usual, 5), Some(20), "after {with}");
    }
    // Frames that are declined before the scan, and by their content.
    let frames = Frames::endless(Peer::Server, 1 << 30);
    for odd in ["x{x", "x\\x"] {
        let text = [frame(&trades(3, 50)), frame(&trades(3, 50).replacen("xxx", odd, 1))].concat();
        let mut out = [Object::default(); RUN_OBJECTS];
        scanner.backoff = BatchBackoff::default();
        assert!(scanner.messages(&text, 0, |at| frames.peek(&text, at), &tables, &mut out).is_none());
        assert_eq!(alike(&mut scanner, &tables, &usual, 5), Some(20));
    }
}

#[test]
fn a_surplus_brace_ends_no_object_at_any_block_end() {
    let Some((mut scanner, tables)) = scanner() else { return };
    for filler in 0..130 {
        for count in [1, 2, 8, 16, 17] {
            let usual = frame(&trades(16, filler));
            assert_eq!(alike(&mut scanner, &tables, &usual, 5), Some(16));
            let mut text = trades(count, filler).into_bytes();
            *text.last_mut().unwrap() = b'}';
            for at in 0..=5 {
                let shifted = [&b"     "[..at], &text].concat();
                let taken = alike(&mut scanner, &tables, &shifted, at + 1).unwrap_or(0);
                assert!(taken <= count, "{taken} of {count} with {filler}");
            }
        }
    }
}
