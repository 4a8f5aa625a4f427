//! Finds the UDP datagram or the TCP segment in a packet.
//!
//! Start at    [`open`].

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, LenSource, TransportSlice};
use pcap_parser::data::{PacketData, get_packetdata};

use crate::reader::CapturedPacket;

/// Content of a packet.
pub(crate) enum PacketContent<'a> {
    Datagram(&'a [u8]),
    Segment { sequence: u32, is_first: bool, bytes: &'a [u8] },
}

/// A packet with a datagram or a segment.
pub(crate) struct OpenedPacket<'a> {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub content: PacketContent<'a>,
    /// Whether the capture has only the first bytes of the datagram or segment.
    pub is_cut: bool,
}

/// Why a packet has no datagram and no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// Another protocol, or another link type.
    Foreign,
    Fragment,
    /// The captured bytes end within the headers.
    Cut,
}

/// Opens the headers of a packet.
pub(crate) fn open<'a>(packet: &CapturedPacket<'a>) -> Result<OpenedPacket<'a>, SkipReason> {
    let other = if packet.is_cut { SkipReason::Cut } else { SkipReason::Foreign };
    let sliced = match get_packetdata(packet.bytes, packet.link_type, packet.bytes.len()) {
        Some(PacketData::L2(frame)) => LaxSlicedPacket::from_ethernet(frame).map_err(|_| other)?,
        Some(PacketData::L3(ether_type, bytes)) => LaxSlicedPacket::from_ether_type(EtherType(ether_type), bytes),
        _ => return Err(other),
    };
    let (source, destination, payload) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            (IpAddr::from(header.source_addr()), IpAddr::from(header.destination_addr()), ip.payload())
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            (IpAddr::from(header.source_addr()), IpAddr::from(header.destination_addr()), ip.payload())
        }
        _ => return Err(other),
    };
    if payload.fragmented {
        return Err(SkipReason::Fragment);
    }
    let (ports, content, is_short) = match sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            let ports = (udp.source_port(), udp.destination_port());
            // The parser uses the length of the slice if the header's is 0 or beyond the packet.
            let is_short = udp.payload_len_source() == LenSource::Slice && udp.length() > 0;
            (ports, PacketContent::Datagram(udp.payload()), is_short)
        }
        Some(TransportSlice::Tcp(tcp)) => {
            let (sequence, is_first) = (tcp.sequence_number(), tcp.syn());
            let ports = (tcp.source_port(), tcp.destination_port());
            (ports, PacketContent::Segment { sequence, is_first, bytes: tcp.payload() }, false)
        }
        _ => return Err(other),
    };
    Ok(OpenedPacket {
        source: (source, ports.0).into(),
        destination: (destination, ports.1).into(),
        content,
        is_cut: payload.incomplete || is_short,
    })
}
