//! The Wireshark dissector in `contracts` has the table of messages.

use std::fmt::Write as _;

use pitwire_order_feed::{FieldKind, FieldLayout, LAYOUTS, MESSAGE_HEADER_BYTES};

const BEGIN: &str = "local messages = {}\n";
const END: &str = "-- End of the generated table.\n";

/// Returns the table of messages in Lua.
fn message_table() -> String {
    let mut out = String::new();
    for layout in LAYOUTS {
        let prefix = format!("mitch.{}", layout.name.to_lowercase().replace([' ', '/', '-'], "_"));
        let (message_type, name, bytes) = (layout.message_type, layout.name, layout.bytes);
        writeln!(out, "messages[{message_type:#04x}] = {{ name = {name:?}, bytes = {bytes}, fields = {{").unwrap();
        let mut offset = MESSAGE_HEADER_BYTES;
        for field in layout.fields {
            if let Some((kind, constructor)) = lua_type(field) {
                let FieldLayout { name, bytes, .. } = field;
                let proto_field = format!("ProtoField.{constructor}(\"{prefix}.{name}\", {name:?})");
                writeln!(out, "  {{ {offset}, {bytes}, {kind:?}, {proto_field} }},").unwrap();
            }
            offset += field.bytes;
        }
        out.push_str("} }\n");
    }
    out
}

/// Returns the kind of a field in the script and its constructor. `None` for unused bytes.
fn lua_type(field: &FieldLayout) -> Option<(&'static str, String)> {
    match field.kind {
        FieldKind::Unsigned => Some(("number", format!("uint{}", field.bytes * 8))),
        FieldKind::Price => Some(("price", "int64".into())),
        FieldKind::Letter | FieldKind::Text => Some(("text", "string".into())),
        FieldKind::FillerBytes => None,
    }
}

#[test]
fn the_dissector_in_contracts_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/pitwire-mitch.lua");
    let kept = std::fs::read_to_string(path).unwrap();
    let (head, rest) = kept.split_once(BEGIN).expect("the table begins");
    let (table, tail) = rest.split_once(END).expect("the table ends");
    let generated = message_table();
    if std::env::var_os("WRITE_DISSECTOR").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{generated}{END}{tail}")).unwrap();
    } else {
        assert!(table == generated, "run WRITE_DISSECTOR=1 cargo test -p pitwire-order-feed --test suite dissector");
    }
}
