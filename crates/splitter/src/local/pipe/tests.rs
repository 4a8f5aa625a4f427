//! Counting the records that a dead worker left in its pipe, and pages lent to the kernel.

use super::*;

fn stream(records: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        out.extend(record.as_bytes());
    }
    out
}

/// Wherever the worker stopped reading, the records that it did not receive whole are counted.
#[test]
fn unread_records_are_counted_at_every_cut() {
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

fn channel(lends: bool) -> (PipeChannel, OwnedFd) {
    let options = TransportOptions { lend_pages: Some(lends), ..TransportOptions::new(1) };
    let (mut channels, ends) = PipeChannel::open_all(&options, 0).unwrap();
    let WorkerEnds::Pipes(mut pipes) = ends else { panic!("pipes have pipes") };
    let reading = pipes.pop().unwrap();
    fcntl_setfl(&reading, fcntl_getfl(&reading).unwrap() | OFlags::NONBLOCK).unwrap();
    (channels.pop().unwrap(), reading)
}

/// Makes the n-th record. Its bytes and its length follow from n; a few are very long.
fn record(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(2_654_435_761) >> 8;
    let length = match mixed % 4_001 {
        0 => 1 << 20,
        1 => 100_000,
        _ => 2 + mixed as usize % 250,
    };
    let mut record = vec![b'a' + (number % 23) as u8; length];
    (record[0], record[length - 1]) = (b'{', b'}');
    record
}

/// Reads at most `most` bytes and compares them with what should come next.
fn read_on(reading: &OwnedFd, most: usize, expected: &mut Vec<u8>) -> usize {
    let mut bytes = vec![0; most];
    let Ok(read) = rustix::io::read(reading, &mut bytes) else { return 0 };
    assert!(bytes[..read] == expected[..read], "what was written is what is read");
    expected.drain(..read);
    read
}

/// The content of a pipe does not change before it is read. Most of the time the pipe is nearly
/// full.
fn goes_through(lends: bool) {
    let (mut channel, reading) = channel(lends);
    let (mut expected, mut chance) = (Vec::new(), 1_u32);
    for number in 0..60_000 {
        let record = record(number);
        while channel.put(&record, 0, record.len()).is_err() {
            let _ = channel.hand_over();
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            read_on(&reading, 1 + (chance >> 15) as usize % 90_000, &mut expected);
        }
        expected.extend_from_slice(&u32::try_from(record.len()).unwrap().to_le_bytes());
        expected.extend_from_slice(&record);
        if number % 37 == 0 {
            assert_eq!(channel.hand_over(), Ok(false));
        }
    }
    while !channel.is_handed_over() {
        let _ = channel.hand_over();
        read_on(&reading, 1 << 16, &mut expected);
    }
    // The pipe outlives its writer, whose memory is then used for something else.
    drop(channel);
    let others: Vec<PageBuffer> = (0..4).map(|_| PageBuffer::new(ROOM_BYTES, LAP_BYTES).unwrap()).map(filled).collect();
    while read_on(&reading, 1 << 16, &mut expected) > 0 {}
    assert!(expected.is_empty() && others.len() == 4);
}

fn filled(mut pages: PageBuffer) -> PageBuffer {
    pages.fill(b'x');
    pages
}

#[test]
fn borrowed_pages_do_not_change_before_they_are_read() {
    goes_through(true);
}

#[test]
fn copied_bytes_arrive_unchanged() {
    goes_through(false);
}

/// A privileged reader may make its pipe larger than a lap.
#[test]
fn enlarged_pipe_gets_copies() {
    let (mut channel, reading) = channel(true);
    // Pretends that the pipe was smaller when it was made.
    channel.pipe_bytes = PIPE_BYTES / 2;
    let (record, mut expected) = (record(7), Vec::new());
    let mut written = 0;
    while channel.lends {
        assert!(written < 2 * LAP_BYTES, "looked at once a lap");
        while channel.put(&record, 0, record.len()).is_err() {
            let _ = channel.hand_over();
            read_on(&reading, 1 << 16, &mut expected);
        }
        expected.extend_from_slice(&u32::try_from(record.len()).unwrap().to_le_bytes());
        expected.extend_from_slice(&record);
        written += LENGTH_BYTES + record.len();
    }
    while !channel.is_handed_over() {
        let _ = channel.hand_over();
        read_on(&reading, 1 << 16, &mut expected);
    }
    while read_on(&reading, 1 << 16, &mut expected) > 0 {}
    assert!(expected.is_empty());
}
