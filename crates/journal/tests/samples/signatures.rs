//! Used signatures, by the names that the golden vectors use.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pitwire_model::{Command, Seq, SequencedCommand, SignaturePurpose, SpentSignature, VenueNanos};

use super::ACCOUNT;

pub fn commands() -> Vec<(&'static str, SequencedCommand)> {
    let (v4, v6) = (IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::from(Ipv6Addr::LOCALHOST));
    let purposes = [
        ("order_signature", SignaturePurpose::Order),
        ("login_signature", SignaturePurpose::Login(None)),
        ("login_from_ipv4", SignaturePurpose::Login(Some(v4))),
        ("login_from_ipv6", SignaturePurpose::Login(Some(v6))),
    ];
    let stamped = |(seq, (name, purpose)): (u8, _)| {
        let used_ms = 1_700_000_000_000 + u64::from(seq) - 1;
        let spent = SpentSignature { digest: [seq; 32], account: ACCOUNT, used_ms, purpose };
        let seq = u64::from(seq);
        (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(1000 + seq), command: Command::SpendSignature(spent) })
    };
    (1..).zip(purposes).map(stamped).collect()
}
