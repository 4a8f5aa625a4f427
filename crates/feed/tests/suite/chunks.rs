//! The reader finds the same objects as the reference implementation, for any division of the
//! stream into chunks and with every instruction set.

use crate::support::*;
use pitwire_random::SplitMix64;

const STREAMS: usize = 3_000;

/// Valid and invalid objects.
const OBJECTS: &[&str] = &[
    r#"{"ev":"T","sym":"AAPL","i":"52983525029461","x":4,"p":114.125,"s":100,"c":[37],"t":1606487400000,"z":3}"#,
    r#"{"ev":"T","sym":"F","p":1}"#,
    r#"{"ev":"T","sym":"BRK.A","p":400000.01,"s":1,"c":[12,37,41],"t":1606487400001,"z":1}"#,
    r#"{"ev":"T","sym":"","p":1}"#,
    r#"{"ev":"T","sym":"SEVENTY"}"#,
    r#"{"ev":"T","sym":"EIGHTEEN"}"#,
    r#"{"ev":"T","sym":"O:SPY251219C00650000","p":1.5}"#,
    r#"{"ev":"Q","sym":"MSFT","bx":4,"ax":7,"bp":114.125,"ap":114.128,"bs":100,"as":160,"c":0,"t":1536036818784,"z":3}"#,
    r#"{"ev":"AM","sym":"GTE","v":4110,"av":9470157,"op":0.4372,"vw":0.4488,"o":0.4488,"c":0.4486}"#,
    r#"{ "ev" : "T" , "sym" : "AAPL" }"#,
    "{\"sym\"\t:\r\n\"AAPL\"}",
    r#"{"p":1.5,"sym":"TSLA"}"#,
    r#"{"ev":"T","sym":"A\"B","p":1}"#,
    r#"{"ev":"T","sym":"\u0041APL"}"#,
    r#"{"ev":"T","s\u0079m":"AAPL"}"#,
    r#"{"ev":"T","sym":"\ud83d\ude00"}"#,
    r#"{"ev":"T","sym":"\ud83d"}"#,
    r#"{"ev":"T","sym":"\x"}"#,
    r#"{"ev":"T","sym":"AAPL","note":"}{"}"#,
    r#"{"ev":"T","sym":"AAPL","note":"},{\"ev\":\"T\",\"sym\":\"MSFT\"}"}"#,
    r#"{"ev":"T","sym":"AAPL","note":"\\"}"#,
    r#"{"ev":"T","sym":"AAPL","more":{"sym":"MSFT","deep":{}}}"#,
    r#"{"ev":"T","sym":"AAPL","legs":[{"ev":"T","sym":"B"},{"ev":"T","sym":"C"}]}"#,
    r#"{"more":{"sym":"MSFT"},"sym":"AAPL"}"#,
    r#"{"list":["sym","x"],"sym":"AAPL"}"#,
    r#"{"sym":"AAPL","sym":"MSFT"}"#,
    r#"{"ev":"T","sym":7}"#,
    r#"{"ev":"T","sym":null}"#,
    r#"{"ev":"status","status":"auth_success","message":"authenticated"}"#,
    r#"{"ev":"T","sym":"ÜBER"}"#,
    r#"{"ev":"T","sym":"AAPL","name":"苹果公司 – Äpfel 🍏"}"#,
    r#"{}"#,
    r#"{"a":[}"#,
    r#"{]"sym":"X"}"#,
    r#"{"ev":"T","sym":"AAPL""#,
    r#"{"ev":"T","sym":"AAPL","x":"unterminated}"#,
    r#"{"ev":"T","sym":"AAPL"\}"#,
    "17",
    "null",
    r#""a string, with ] and }""#,
    "[1,[2,{}],3]",
    "}",
    "\\",
    "",
];

const SEPARATORS: &[&str] = &[",", ",", ",", ",", ",", ",", ",", ",", " , ", ",,", "", ";", "\n,"];
const PIECES: &[&[u8]] = &[b"\"", b"}", b"{", b",", b"]", b"[", b"\\", b"\xC3", b"\xA9", b"\xE2\x82", b"\xFF", b"\x00"];

fn payload(random: &mut SplitMix64) -> Vec<u8> {
    let mut payload = random.pick(&["[", "[", "[", "[", "[", " [ ", "", "{", "[["]).as_bytes().to_vec();
    // Mostly plain trades, so that the vector scan is used.
    let usual = random.index(4) > 0;
    for index in 0..random.index(30) {
        if index > 0 {
            payload.extend(if usual { "," } else { random.pick(SEPARATORS) }.as_bytes());
        }
        let kinds = if random.index(8) > 0 { 3 } else { OBJECTS.len() };
        payload.extend(OBJECTS[random.index(kinds)].as_bytes());
    }
    payload.extend(random.pick(&["]", "]", "]", "]", "]", "] ", "", "]x"]).as_bytes());
    if random.index(6) == 0 {
        let at = random.index(payload.len() + 1);
        payload.splice(at..at, random.pick(PIECES).iter().copied());
    }
    payload
}

/// Appends a message in one or several frames, with control frames between them.
fn message(random: &mut SplitMix64, stream: &mut Vec<u8>) {
    let payload = payload(random);
    let opcode = random.pick(&[1, 1, 1, 2]);
    if random.index(2) == 0 {
        stream.extend(frame(0x80 | opcode, &payload));
        return;
    }
    let (mut rest, mut opcode) = (&payload[..], opcode);
    while random.index(5) > 0 {
        let (now, later) = rest.split_at(random.index(rest.len() + 1));
        stream.extend(frame(opcode, now));
        (rest, opcode) = (later, 0);
        if random.index(3) == 0 {
            let body = vec![b'x'; random.pick(&[0, 1, 26, 27, 32, 125])];
            stream.extend(frame(random.pick(&[PING, PONG]), &body));
        }
    }
    stream.extend(frame(0x80 | opcode, rest));
}

fn stream(random: &mut SplitMix64) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..=random.index(5) {
        message(random, &mut stream);
    }
    match random.index(10) {
        0 => stream.extend(frame(CLOSE, b"\x03\xE8bye")),
        1 => {
            let at = random.index(stream.len());
            stream[at] ^= 1 << random.index(8);
        }
        2 => stream.truncate(random.index(stream.len() + 1)),
        _ => {}
    }
    stream
}

#[test]
fn every_cut_of_any_stream_gives_the_same_objects() {
    let seed = test_seed();
    for index in 0..STREAMS {
        let mut random = SplitMix64::new(seed.wrapping_add(index as u64));
        let stream = stream(&mut random);
        let most = random.pick(&[1, 7, 64, 300, 5000]);
        let lengths: Vec<usize> = (0..=random.index(6)).map(|_| 1 + random.index(most)).collect();
        check(&stream, &[]);
        check(&stream, &lengths);
    }
}

/// Returns a trade of at least 64 bytes, which the batch scan accepts.
fn trade(random: &mut SplitMix64) -> String {
    let symbol: String = (0..random.index(10)).map(|_| char::from(random.pick(b"ABCDEFGHIJ."))).collect();
    let (number, price) = (random.index(1_000_000_000), random.index(100_000));
    let more = random.pick(&["", r#","z":3"#, r#","c":[12,37],"z":1"#]);
    format!(r#"{{"ev":"T","sym":"{symbol}","i":"5298{number:011}","p":{price}.25,"t":16064{number:09}{more}}}"#)
}

fn trades(random: &mut SplitMix64, count: usize) -> String {
    let trades: Vec<String> = (0..count).map(|_| trade(random)).collect();
    format!("[{}]", trades.join(","))
}

/// The stream has uniform objects and at most one change. Its frames are small, or longer than a
/// batch.
#[test]
fn one_difference_among_uniform_objects_is_noticed() {
    let seed = test_seed();
    for index in 0..STREAMS {
        let mut random = SplitMix64::new(seed.wrapping_add(index as u64));
        let most = random.pick(&[1, 2, 5, 20, 20]);
        let mut stream = Vec::new();
        for _ in 0..random.index(20) {
            let count = 1 + random.index(most);
            stream.extend(frame(random.pick(&[TEXT, TEXT, TEXT, BINARY]), trades(&mut random, count).as_bytes()));
        }
        if index % 50 == 0 {
            stream.extend(text(&trades(&mut random, 500)));
        }
        let at = random.index(stream.len() + 1);
        match random.index(4) {
            // The change may damage a frame header. The stream then usually ends there.
            0 => drop(stream.splice(at..at, random.pick(PIECES).iter().copied())),
            1 if at < stream.len() => stream[at] = random.pick(PIECES)[0],
            2 if at < stream.len() => stream[at] ^= 1 << random.index(8),
            _ => {}
        }
        let length = 1 + random.index(stream.len());
        check(&stream, &[]);
        check(&stream, &[length]);
    }
}

/// The wrong byte is inside a payload, so the reader continues with the next messages.
#[test]
fn a_wrong_byte_in_a_message_affects_no_other() {
    let seed = test_seed();
    let odd: &[&str] = &[
        "\"",
        "{",
        "}",
        "},{",
        "}{",
        "}},",
        "[",
        "]",
        ",",
        "\\",
        "\\,{",
        "Ä",
        "\u{1}",
        "{\"ev\":\"T\",\"sym\":\"",
        "\"\"",
    ];
    for index in 0..STREAMS {
        let mut random = SplitMix64::new(seed.wrapping_add(index as u64));
        let (before, after) = (random.index(4), random.index(4));
        let mut payload = trades(&mut random, 2 + index % 5);
        let at = random.index(payload.len() + 1);
        let bytes = random.pick(&[0, 0, 1, 2, 3]).min(payload.len() - at);
        payload.replace_range(at..at + bytes, random.pick(odd));
        let mut messages: Vec<Vec<u8>> = (0..before).map(|_| text(&trades(&mut random, 2))).collect();
        messages.push(frame(random.pick(&[TEXT, BINARY]), payload.as_bytes()));
        messages.extend((0..after).map(|_| text(&trades(&mut random, 3))));
        check(&messages.concat(), &[]);
    }
}

#[test]
fn an_object_may_be_cut_at_every_byte() {
    for object in OBJECTS {
        let payload = format!("[{},{object},{}]", OBJECTS[0], OBJECTS[1]);
        let whole = frame(TEXT, payload.as_bytes());
        for at in 1..whole.len() {
            check(&whole, &[at, whole.len()]);
        }
        check(&whole, &[1]);
        for at in 0..=payload.len() {
            let (now, later) = payload.as_bytes().split_at(at);
            let stream = [frame(BEGIN, now), frame(PING, b"between"), frame(END, later)].concat();
            check(&stream, &[]);
        }
    }
}

/// The lengths let an object end at every position of a block of the scan.
#[test]
fn objects_of_every_length_are_found() {
    for length in 0..200 {
        let object = |symbol: &str| format!(r#"{{"ev":"T","sym":"{symbol}","n":"{}"}}"#, "x".repeat(length));
        let objects: Vec<String> =
            ["AAPL", "F", "SPY", "", "BRK.A"].iter().cycle().take(40).map(|s| object(s)).collect();
        let stream = text(&format!("[{}]", objects.join(",")));
        let outcome = check(&stream, &[]);
        assert_eq!(outcome.objects(), objects);
    }
}

#[test]
fn more_objects_than_a_run_holds_arrive_in_order() {
    for count in [255, 256, 257, 511, 512, 513, 5000] {
        let objects: Vec<String> =
            (0..count).map(|number| format!(r#"{{"ev":"T","sym":"S{}","i":{number}}}"#, number % 100)).collect();
        let outcome = check(&text(&format!("[{}]", objects.join(","))), &[]);
        assert_eq!(outcome.objects(), objects);
        assert_eq!(outcome.counters.objects, count);
    }
}
