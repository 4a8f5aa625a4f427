//! The Wireshark dissector in `contracts` equals the table of messages.

use pitwire_order_feed::wireshark_dissector;

#[test]
fn the_dissector_in_contracts_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/pitwire-mitch.lua");
    let generated = wireshark_dissector();
    if std::env::var_os("WRITE_DISSECTOR").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == generated, "run WRITE_DISSECTOR=1 cargo test -p pitwire-order-feed --test dissector");
}
