//! Addresses under which clients reach a listener of this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Returns the addresses of this machine besides loopback, as far as the kernel lists them.
pub fn own_addresses() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut lines = table.lines().map(str::trim).peekable();
    let mut found = BTreeSet::new();
    while let Some(line) = lines.next() {
        let is_own = lines.peek().is_some_and(|next| next.starts_with("/32 host LOCAL"));
        let address = line.strip_prefix("|-- ").filter(|_| is_own);
        found.extend(address.and_then(|text| text.parse::<IpAddr>().ok()));
    }
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let global = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        // The address, the index of the interface, the length of the prefix, and the scope: 0 is
        // global.
        let (address, scope) = (fields.next()?, fields.nth(2)?);
        let bits = u128::from_str_radix(address, 16).ok().filter(|_| scope == "00")?;
        Some(IpAddr::from(Ipv6Addr::from(bits)))
    });
    found.extend(global);
    found.into_iter().filter(|address: &IpAddr| !address.is_loopback()).collect()
}

/// Returns an address at which clients on this machine reach a listener.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_on_all_addresses_is_reached_on_loopback() {
        for (listens, expected) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "127.0.0.1:80"), ("10.0.0.1:80", "10.0.0.1:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
