//! Hostile input for the decoder of captures: files, packets, and the segments of a TCP stream.
//!
//! Does        read the input as a capture, as packets, or as segments of a stream of our messages
//!             in any order; write packets as pcap and as pcapng. Panic when the two formats, or a
//!             pipe in small pieces, give other messages, when the counts are wrong, and when
//!             reordered segments lose, repeat or change a message.
//! Start at    [`run`].

use std::io::{self, Read};
use std::ops::ControlFlow;

use pitwire_capture::{CaptureCounts, CapturedMessage, decode};

use crate::{binary_entry, feed_network, order_feed};

/// Longest input in bytes.
const BYTES_MAX: usize = 16_384;
/// Link type of packets that begin with the IP header.
const RAW_IP: u32 = 101;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 2;
/// Longest part of a stream that one byte of the input can choose.
const SEGMENT_UNIT: usize = 5;

/// The first byte chooses between a capture, packets and segments.
pub fn run(input: &[u8]) {
    let [how, rest @ ..] = input else { return };
    let rest = &rest[..rest.len().min(BYTES_MAX)];
    match how % 3 {
        0 => check_pieces(rest),
        1 => {
            let packets: Vec<Vec<u8>> = packets(rest).collect();
            let (of_pcap, of_pcapng) = (read(pcap(&packets).as_slice()), read(pcapng(&packets).as_slice()));
            assert_eq!(of_pcap, of_pcapng, "pcap and pcapng have the same messages");
            check_pieces(&pcapng(&packets));
        }
        _ => check_segments(rest),
    }
}

/// Returns the messages, their counts, and the error that ended the capture.
fn read(capture: impl Read) -> (Vec<CapturedMessage>, CaptureCounts, Option<String>) {
    let mut messages = Vec::new();
    let (counts, result) = decode(capture, &mut |message| {
        messages.push(message.clone());
        ControlFlow::Continue(())
    });
    // A gap does not count as a message.
    let counted = messages.iter().filter(|message| message.name != "TCP Gap").count();
    assert_eq!(counts.messages, counted as u64);
    for message in messages.iter().take(5) {
        assert!(message.to_json().is_object() && !message.to_string().is_empty());
    }
    (messages, counts, result.err().map(|error| error.to_string()))
}

/// A pipe that gives few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = buffer.len().min(self.0.len()).min(1 + self.0.len() % 97);
        let (now, later) = self.0.split_at(bytes);
        buffer[..bytes].copy_from_slice(now);
        self.0 = later;
        Ok(bytes)
    }
}

/// Checks that a capture from a pipe has the messages and the end of a file.
fn check_pieces(capture: &[u8]) {
    assert_eq!(read(capture), read(Pieces(capture)), "a pipe has what a file has");
}

/// IP packets of the input. The length precedes each in two bytes.
fn packets(mut rest: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let (packet, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
        rest = after;
        Some(packet.to_vec())
    })
}

/// Checks that segments of a stream in any order give the messages of the stream. The first byte
/// chooses the messages; each two bytes then choose the start and the length of a segment.
fn check_segments(input: &[u8]) {
    let [choice, choices @ ..] = input else { return };
    let frames = entry_frames();
    let chosen = frames.iter().cycle().skip(usize::from(choice % 16)).take(usize::from(1 + choice / 16));
    let stream: Vec<u8> = chosen.flatten().copied().collect();
    let mut segments = Vec::new();
    for pair in choices.chunks_exact(2).take(200) {
        let start = usize::from(pair[0]) * stream.len() / 256;
        let end = (start + 1 + SEGMENT_UNIT * usize::from(pair[1])).min(stream.len());
        segments.push((start, &stream[start..end]));
    }
    // The last segments first, so that everything is there at the end.
    segments.extend(stream.chunks(300).enumerate().map(|(at, part)| (300 * at, part)).rev());
    let sequence_start = u32::from(*choice) << 24 | 0x00FF_FFF0;
    let segment = |(at, bytes): (usize, &[u8])| {
        let at = u32::try_from(at + 1).unwrap_or(u32::MAX);
        tcp_packet(sequence_start.wrapping_add(at), 0, bytes)
    };
    let first = tcp_packet(sequence_start, SYN, b"");
    let ordered = [first.clone(), segment((0, &stream[..]))];
    let reordered: Vec<Vec<u8>> = std::iter::once(first).chain(segments.into_iter().map(segment)).collect();
    let (expected, _, _) = read(pcap(&ordered).as_slice());
    let (found, counts, _) = read(pcapng(&reordered).as_slice());
    let content = |messages: &[CapturedMessage]| -> Vec<_> {
        messages.iter().map(|message| (message.number, message.name, message.fields.clone())).collect()
    };
    assert_eq!(content(&found), content(&expected), "reordered segments have the messages of the stream");
    assert_eq!((counts.gaps, counts.malformed), (0, 0));
    assert!(!expected.is_empty());
}

/// Valid frames of binary order entry.
fn entry_frames() -> Vec<Vec<u8>> {
    let seeds = binary_entry::seeds().into_iter();
    seeds.filter_map(|seed| seed.strip_prefix(&[0]).map(<[u8]>::to_vec)).collect()
}

fn ip_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    packet.extend_from_slice(payload);
    packet
}

fn tcp_packet(sequence: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = sequence.to_be_bytes();
    // Ports 9001 and 9002, five words of header.
    let header = [0x23, 0x29, 0x23, 0x2A, a, b, c, d, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0];
    ip_packet(TCP, &[&header[..], bytes].concat())
}

fn udp_packet(bytes: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(8 + bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    ip_packet(UDP, &[&[0x23, 0x8C, 0x23, 0x8D, high, low, 0, 0][..], bytes].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn length_of(packet: &[u8]) -> u32 {
    u32::try_from(packet.len()).unwrap_or(u32::MAX)
}

/// A capture with nanoseconds. The packets are a second apart.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&[0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, RAW_IP]);
    for (packet, second) in packets.iter().zip(0..) {
        let length = length_of(packet);
        file.extend(words(&[second, 0, length, length]));
        file.extend_from_slice(packet);
    }
    file
}

/// The same capture as pcapng. Its option says that times are in nanoseconds.
fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&[0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]);
    file.extend(words(&[1, 32, RAW_IP, 262_144, 0x0001_0009, 9, 0, 32]));
    for (packet, second) in packets.iter().zip(0_u64..) {
        let (length, padding) = (length_of(packet), packet.len().next_multiple_of(4) - packet.len());
        let [a, b, c, d, e, f, g, h] = (second * 1_000_000_000).to_le_bytes();
        let (low, high) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let block = 32 + length_of(packet).next_multiple_of(4);
        file.extend(words(&[6, block, 0, high, low, length, length]));
        file.extend_from_slice(packet);
        file.resize(file.len() + padding, 0);
        file.extend(words(&[block]));
    }
    file
}

/// Captures in both formats with datagrams and segments, their packets alone, and segments.
pub fn seeds() -> Vec<Vec<u8>> {
    let datagrams = order_feed::seeds().into_iter().filter(|seed| seed.first() != Some(&1));
    let mut all: Vec<Vec<u8>> = datagrams.map(|seed| udp_packet(&seed[1..])).collect();
    all.push(tcp_packet(9, SYN, b""));
    for (frame, at) in entry_frames().iter().zip(0..) {
        all.push(tcp_packet(10 + 400 * at, 0, frame));
    }
    let answers = feed_network::seeds();
    all.extend(answers.iter().filter_map(|seed| seed.strip_prefix(&[2])).map(|bytes| tcp_packet(9_000, 0, bytes)));
    let mut listed = vec![1];
    for packet in &all {
        listed.extend(u16::try_from(packet.len()).unwrap_or(u16::MAX).to_le_bytes());
        listed.extend_from_slice(packet);
    }
    let mut seeds = vec![[&[0], pcap(&all).as_slice()].concat(), [&[0], pcapng(&all).as_slice()].concat(), listed];
    seeds.extend((0..=255_u8).step_by(17).map(|choice| vec![2, choice, 200, 40, 3, 9, 100, 200, 0, 1, 128, 128, 3, 9]));
    seeds
}
