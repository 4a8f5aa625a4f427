//! Generates a dissector for Wireshark from the table of messages.
//!
//! Start at    [`wireshark_dissector`].

use std::fmt::Write as _;

use crate::fields::FieldKind;
use crate::messages::{FieldLayout, LAYOUTS};

const HEAD: &str = "\
-- Wireshark dissector of the order-by-order feed (docs/order-feed.md).
-- Generated from the table of messages in crates/order-feed; do not edit.
--
--   tshark -X lua_script:pitwire-mitch.lua -d udp.port==9100,mitch -r capture.pcapng -V

local mitch = Proto(\"mitch\", \"MITCH 4.07\")
local fields = mitch.fields
fields.unit_length = ProtoField.uint16(\"mitch.length\", \"Length\")
fields.message_count = ProtoField.uint8(\"mitch.message_count\", \"Message Count\")
fields.group = ProtoField.string(\"mitch.market_data_group\", \"Market Data Group\")
fields.sequence = ProtoField.uint32(\"mitch.sequence_number\", \"Sequence Number\")
fields.message_length = ProtoField.uint16(\"mitch.message.length\", \"Length\")
fields.message_type = ProtoField.uint8(\"mitch.message.type\", \"Type\", base.HEX)
local malformed = ProtoExpert.new(\"mitch.malformed\", \"Malformed message\", expert.group.MALFORMED, expert.severity.ERROR)
mitch.experts = { malformed }

-- Each field: offset in the message, bytes, kind, protocol field.
local messages = {}
";

const TAIL: &str = "
local function price_text(value)
  local text = tostring(value)
  local sign = \"\"
  if text:sub(1, 1) == \"-\" then
    sign, text = \"-\", text:sub(2)
  end
  text = string.rep(\"0\", 9 - #text) .. text
  return sign .. text:sub(1, -9) .. \".\" .. text:sub(-8)
end

local function dissect_unit(tvb, pinfo, tree)
  pinfo.cols.protocol = \"MITCH\"
  local unit = tree:add(mitch, tvb())
  unit:add_le(fields.unit_length, tvb(0, 2))
  unit:add_le(fields.message_count, tvb(2, 1))
  unit:add(fields.group, tvb(3, 1))
  unit:add_le(fields.sequence, tvb(4, 4))
  local names, at = {}, 8
  while at + 3 <= tvb:len() do
    local length, type = tvb(at, 2):le_uint(), tvb(at + 2, 1):uint()
    if length < 3 or at + length > tvb:len() then
      unit:add_proto_expert_info(malformed)
      break
    end
    local layout = messages[type]
    local name = layout and layout.name or string.format(\"Unknown 0x%02x\", type)
    names[#names + 1] = name
    local message = unit:add(mitch, tvb(at, length), name)
    message:add_le(fields.message_length, tvb(at, 2))
    message:add(fields.message_type, tvb(at + 2, 1))
    if layout and layout.bytes == length then
      for _, field in ipairs(layout.fields) do
        local range = tvb(at + field[1], field[2])
        if field[3] == \"price\" then
          message:add_le(field[4], range):append_text(\" (\" .. price_text(range:le_int64()) .. \")\")
        elseif field[3] == \"text\" then
          message:add(field[4], range)
        else
          message:add_le(field[4], range)
        end
      end
    elseif layout then
      message:add_proto_expert_info(malformed)
    end
    at = at + length
  end
  pinfo.cols.info = #names == 0 and \"Heartbeat\" or table.concat(names, \", \")
  return tvb:len()
end

local function unit_length(tvb, _, offset)
  return math.max(tvb(offset, 2):le_uint(), 8)
end

function mitch.dissector(tvb, pinfo, tree)
  if tvb:len() < 8 then
    return 0
  end
  if pinfo.port_type == 2 then
    dissect_tcp_pdus(tvb, tree, 8, unit_length, dissect_unit)
    return tvb:len()
  end
  return dissect_unit(tvb, pinfo, tree)
end

DissectorTable.get(\"udp.port\"):add_for_decode_as(mitch)
DissectorTable.get(\"tcp.port\"):add_for_decode_as(mitch)
";

/// Returns a dissector for Wireshark and tshark, in Lua.
pub fn wireshark_dissector() -> String {
    let mut out = HEAD.to_owned();
    for layout in LAYOUTS {
        let prefix = format!("mitch.{}", layout.name.to_lowercase().replace([' ', '/', '-'], "_"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "messages[{:#04x}] = {{ name = {:?}, bytes = {}, fields = {{",
            layout.message_type, layout.name, layout.bytes
        );
        let mut offset = crate::messages::MESSAGE_HEADER_BYTES;
        for field in layout.fields {
            if let Some((kind, constructor)) = lua_type(field) {
                let FieldLayout { name, bytes, .. } = field;
                let _ = writeln!(
                    out,
                    "  {{ {offset}, {bytes}, {kind:?}, ProtoField.{constructor}(\"{prefix}.{name}\", {name:?}) }},"
                );
            }
            offset += field.bytes;
        }
        out.push_str("} }\n");
    }
    out.push_str(
        "for _, layout in pairs(messages) do\n  for _, field in ipairs(layout.fields) do\n    \
         fields[#fields + 1] = field[4]\n  end\nend\n",
    );
    out + TAIL
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
