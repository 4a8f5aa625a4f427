-- Wireshark dissector of the order-by-order feed (docs/order-feed.md).
-- The table of messages is generated from crates/order-feed; do not edit it.
--
--   tshark -X lua_script:pitwire-mitch.lua -d udp.port==9100,mitch -r capture.pcapng -V

local mitch = Proto("mitch", "MITCH 4.07")
local fields = mitch.fields
fields.unit_length = ProtoField.uint16("mitch.length", "Length")
fields.message_count = ProtoField.uint8("mitch.message_count", "Message Count")
fields.group = ProtoField.string("mitch.market_data_group", "Market Data Group")
fields.sequence = ProtoField.uint32("mitch.sequence_number", "Sequence Number")
fields.message_length = ProtoField.uint16("mitch.message.length", "Length")
fields.message_type = ProtoField.uint8("mitch.message.type", "Type", base.HEX)
local malformed = ProtoExpert.new("mitch.malformed", "Malformed message", expert.group.MALFORMED, expert.severity.ERROR)
mitch.experts = { malformed }

-- Each field: offset in the message, bytes, kind, protocol field.
local messages = {}
messages[0x54] = { name = "Time", bytes = 7, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.time.seconds", "seconds") },
} }
messages[0x53] = { name = "System Event", bytes = 8, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.system_event.nanosecond", "nanosecond") },
  { 7, 1, "text", ProtoField.string("mitch.system_event.event_code", "event_code") },
} }
messages[0x52] = { name = "Symbol Directory", bytes = 422, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.symbol_directory.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.symbol_directory.instrument_id", "instrument_id") },
  { 13, 1, "text", ProtoField.string("mitch.symbol_directory.symbol_status", "symbol_status") },
  { 26, 25, "text", ProtoField.string("mitch.symbol_directory.symbol", "symbol") },
  { 63, 6, "text", ProtoField.string("mitch.symbol_directory.segment", "segment") },
  { 69, 8, "price", ProtoField.int64("mitch.symbol_directory.previous_close_price", "previous_close_price") },
  { 118, 1, "text", ProtoField.string("mitch.symbol_directory.option_type", "option_type") },
  { 142, 1, "number", ProtoField.uint8("mitch.symbol_directory.sub_book_flags", "sub_book_flags") },
  { 382, 8, "price", ProtoField.int64("mitch.symbol_directory.contract_multiplier", "contract_multiplier") },
  { 390, 1, "text", ProtoField.string("mitch.symbol_directory.settlement_method", "settlement_method") },
  { 421, 1, "text", ProtoField.string("mitch.symbol_directory.exercise_style", "exercise_style") },
} }
messages[0x48] = { name = "Symbol Status", bytes = 33, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.symbol_status.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.symbol_status.instrument_id", "instrument_id") },
  { 13, 1, "text", ProtoField.string("mitch.symbol_status.trading_status", "trading_status") },
  { 15, 4, "text", ProtoField.string("mitch.symbol_status.reason", "reason") },
  { 19, 1, "number", ProtoField.uint8("mitch.symbol_status.session_change_reason", "session_change_reason") },
  { 20, 12, "text", ProtoField.string("mitch.symbol_status.new_end_time", "new_end_time") },
  { 32, 1, "number", ProtoField.uint8("mitch.symbol_status.book_type", "book_type") },
} }
messages[0x41] = { name = "Add Order", bytes = 45, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.add_order.nanosecond", "nanosecond") },
  { 7, 8, "number", ProtoField.uint64("mitch.add_order.order_id", "order_id") },
  { 15, 1, "text", ProtoField.string("mitch.add_order.side", "side") },
  { 16, 4, "number", ProtoField.uint32("mitch.add_order.quantity", "quantity") },
  { 20, 4, "number", ProtoField.uint32("mitch.add_order.instrument_id", "instrument_id") },
  { 26, 8, "price", ProtoField.int64("mitch.add_order.price", "price") },
  { 34, 1, "number", ProtoField.uint8("mitch.add_order.flags", "flags") },
} }
messages[0x44] = { name = "Order Deleted", bytes = 15, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.order_deleted.nanosecond", "nanosecond") },
  { 7, 8, "number", ProtoField.uint64("mitch.order_deleted.order_id", "order_id") },
} }
messages[0x55] = { name = "Order Modified", bytes = 28, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.order_modified.nanosecond", "nanosecond") },
  { 7, 8, "number", ProtoField.uint64("mitch.order_modified.order_id", "order_id") },
  { 15, 4, "number", ProtoField.uint32("mitch.order_modified.new_quantity", "new_quantity") },
  { 19, 8, "price", ProtoField.int64("mitch.order_modified.new_price", "new_price") },
  { 27, 1, "number", ProtoField.uint8("mitch.order_modified.flags", "flags") },
} }
messages[0x79] = { name = "Order Book Clear", bytes = 13, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.order_book_clear.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.order_book_clear.instrument_id", "instrument_id") },
  { 11, 1, "number", ProtoField.uint8("mitch.order_book_clear.sub_book", "sub_book") },
  { 12, 1, "number", ProtoField.uint8("mitch.order_book_clear.book_type", "book_type") },
} }
messages[0x45] = { name = "Order Executed", bytes = 55, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.order_executed.nanosecond", "nanosecond") },
  { 7, 8, "number", ProtoField.uint64("mitch.order_executed.order_id", "order_id") },
  { 15, 4, "number", ProtoField.uint32("mitch.order_executed.executed_quantity", "executed_quantity") },
  { 19, 8, "number", ProtoField.uint64("mitch.order_executed.trade_id", "trade_id") },
} }
messages[0x43] = { name = "Order Executed With Price/Size", bytes = 68, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.order_executed_with_price_size.nanosecond", "nanosecond") },
  { 7, 8, "number", ProtoField.uint64("mitch.order_executed_with_price_size.order_id", "order_id") },
  { 15, 4, "number", ProtoField.uint32("mitch.order_executed_with_price_size.executed_quantity", "executed_quantity") },
  { 19, 4, "number", ProtoField.uint32("mitch.order_executed_with_price_size.display_quantity", "display_quantity") },
  { 23, 8, "number", ProtoField.uint64("mitch.order_executed_with_price_size.trade_id", "trade_id") },
  { 31, 1, "text", ProtoField.string("mitch.order_executed_with_price_size.printable", "printable") },
  { 32, 8, "price", ProtoField.int64("mitch.order_executed_with_price_size.price", "price") },
} }
messages[0x50] = { name = "Trade", bytes = 75, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.trade.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.trade.executed_quantity", "executed_quantity") },
  { 11, 4, "number", ProtoField.uint32("mitch.trade.instrument_id", "instrument_id") },
  { 17, 8, "price", ProtoField.int64("mitch.trade.price", "price") },
  { 25, 8, "number", ProtoField.uint64("mitch.trade.trade_id", "trade_id") },
  { 33, 1, "number", ProtoField.uint8("mitch.trade.sub_book", "sub_book") },
  { 34, 1, "number", ProtoField.uint8("mitch.trade.flags", "flags") },
  { 35, 4, "text", ProtoField.string("mitch.trade.trade_sub_type", "trade_sub_type") },
  { 67, 4, "text", ProtoField.string("mitch.trade.cancellation_flag", "cancellation_flag") },
  { 71, 4, "text", ProtoField.string("mitch.trade.amendment_flag", "amendment_flag") },
} }
messages[0x51] = { name = "Auction Trade", bytes = 70, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.auction_trade.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.auction_trade.quantity", "quantity") },
  { 11, 4, "number", ProtoField.uint32("mitch.auction_trade.instrument_id", "instrument_id") },
  { 17, 8, "price", ProtoField.int64("mitch.auction_trade.price", "price") },
  { 25, 8, "number", ProtoField.uint64("mitch.auction_trade.trade_id", "trade_id") },
  { 33, 1, "text", ProtoField.string("mitch.auction_trade.auction_type", "auction_type") },
  { 58, 4, "text", ProtoField.string("mitch.auction_trade.cancellation_flag", "cancellation_flag") },
  { 62, 4, "text", ProtoField.string("mitch.auction_trade.amendment_flag", "amendment_flag") },
} }
messages[0x78] = { name = "Off-Book Trade", bytes = 81, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.off_book_trade.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.off_book_trade.executed_quantity", "executed_quantity") },
  { 11, 4, "number", ProtoField.uint32("mitch.off_book_trade.instrument_id", "instrument_id") },
  { 17, 8, "price", ProtoField.int64("mitch.off_book_trade.price", "price") },
  { 25, 8, "number", ProtoField.uint64("mitch.off_book_trade.trade_id", "trade_id") },
  { 33, 4, "text", ProtoField.string("mitch.off_book_trade.off_book_trade_type", "off_book_trade_type") },
  { 37, 8, "text", ProtoField.string("mitch.off_book_trade.trade_time", "trade_time") },
  { 45, 8, "text", ProtoField.string("mitch.off_book_trade.trade_date", "trade_date") },
  { 77, 4, "text", ProtoField.string("mitch.off_book_trade.cancellation_flag", "cancellation_flag") },
} }
messages[0x76] = { name = "Recovery Trade", bytes = 93, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.recovery_trade.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.recovery_trade.executed_quantity", "executed_quantity") },
  { 11, 4, "number", ProtoField.uint32("mitch.recovery_trade.instrument_id", "instrument_id") },
  { 17, 8, "price", ProtoField.int64("mitch.recovery_trade.price", "price") },
  { 25, 8, "number", ProtoField.uint64("mitch.recovery_trade.trade_id", "trade_id") },
  { 33, 1, "text", ProtoField.string("mitch.recovery_trade.auction_type", "auction_type") },
  { 34, 4, "text", ProtoField.string("mitch.recovery_trade.off_book_trade_type", "off_book_trade_type") },
  { 38, 8, "text", ProtoField.string("mitch.recovery_trade.trade_time", "trade_time") },
  { 46, 8, "text", ProtoField.string("mitch.recovery_trade.trade_date", "trade_date") },
  { 54, 1, "text", ProtoField.string("mitch.recovery_trade.action_type", "action_type") },
  { 55, 1, "number", ProtoField.uint8("mitch.recovery_trade.sub_book", "sub_book") },
  { 56, 1, "number", ProtoField.uint8("mitch.recovery_trade.flags", "flags") },
  { 85, 4, "text", ProtoField.string("mitch.recovery_trade.cancellation_flag", "cancellation_flag") },
  { 89, 4, "text", ProtoField.string("mitch.recovery_trade.amendment_flag", "amendment_flag") },
} }
messages[0x49] = { name = "Auction Info", bytes = 31, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.auction_info.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.auction_info.paired_quantity", "paired_quantity") },
  { 15, 1, "text", ProtoField.string("mitch.auction_info.imbalance_direction", "imbalance_direction") },
  { 16, 4, "number", ProtoField.uint32("mitch.auction_info.instrument_id", "instrument_id") },
  { 22, 8, "price", ProtoField.int64("mitch.auction_info.price", "price") },
  { 30, 1, "text", ProtoField.string("mitch.auction_info.auction_type", "auction_type") },
} }
messages[0x77] = { name = "Statistics", bytes = 24, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.statistics.nanosecond", "nanosecond") },
  { 7, 4, "number", ProtoField.uint32("mitch.statistics.instrument_id", "instrument_id") },
  { 13, 1, "text", ProtoField.string("mitch.statistics.statistic_type", "statistic_type") },
  { 14, 8, "price", ProtoField.int64("mitch.statistics.price", "price") },
  { 22, 1, "text", ProtoField.string("mitch.statistics.open_close_indicator", "open_close_indicator") },
  { 23, 1, "number", ProtoField.uint8("mitch.statistics.sub_book", "sub_book") },
} }
messages[0x01] = { name = "Login Request", bytes = 19, fields = {
  { 3, 6, "text", ProtoField.string("mitch.login_request.username", "username") },
  { 9, 10, "text", ProtoField.string("mitch.login_request.password", "password") },
} }
messages[0x02] = { name = "Login Response", bytes = 4, fields = {
  { 3, 1, "text", ProtoField.string("mitch.login_response.status", "status") },
} }
messages[0x03] = { name = "Replay Request", bytes = 10, fields = {
  { 3, 1, "text", ProtoField.string("mitch.replay_request.market_data_group", "market_data_group") },
  { 4, 4, "number", ProtoField.uint32("mitch.replay_request.first_message", "first_message") },
  { 8, 2, "number", ProtoField.uint16("mitch.replay_request.count", "count") },
} }
messages[0x04] = { name = "Replay Response", bytes = 11, fields = {
  { 3, 1, "text", ProtoField.string("mitch.replay_response.market_data_group", "market_data_group") },
  { 4, 4, "number", ProtoField.uint32("mitch.replay_response.first_message", "first_message") },
  { 8, 2, "number", ProtoField.uint16("mitch.replay_response.count", "count") },
  { 10, 1, "text", ProtoField.string("mitch.replay_response.status", "status") },
} }
messages[0x05] = { name = "Logout Request", bytes = 3, fields = {
} }
messages[0x81] = { name = "Snapshot Request", bytes = 33, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.snapshot_request.sequence_number", "sequence_number") },
  { 7, 6, "text", ProtoField.string("mitch.snapshot_request.segment", "segment") },
  { 13, 4, "number", ProtoField.uint32("mitch.snapshot_request.instrument_id", "instrument_id") },
  { 19, 1, "number", ProtoField.uint8("mitch.snapshot_request.sub_book_flags", "sub_book_flags") },
  { 20, 1, "number", ProtoField.uint8("mitch.snapshot_request.snapshot_type", "snapshot_type") },
  { 21, 8, "text", ProtoField.string("mitch.snapshot_request.recover_from_time", "recover_from_time") },
  { 29, 4, "number", ProtoField.uint32("mitch.snapshot_request.request_id", "request_id") },
} }
messages[0x82] = { name = "Snapshot Response", bytes = 17, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.snapshot_response.sequence_number", "sequence_number") },
  { 7, 4, "number", ProtoField.uint32("mitch.snapshot_response.order_count", "order_count") },
  { 11, 1, "text", ProtoField.string("mitch.snapshot_response.status", "status") },
  { 12, 1, "number", ProtoField.uint8("mitch.snapshot_response.snapshot_type", "snapshot_type") },
  { 13, 4, "number", ProtoField.uint32("mitch.snapshot_response.request_id", "request_id") },
} }
messages[0x83] = { name = "Snapshot Complete", bytes = 21, fields = {
  { 3, 4, "number", ProtoField.uint32("mitch.snapshot_complete.sequence_number", "sequence_number") },
  { 7, 6, "text", ProtoField.string("mitch.snapshot_complete.segment", "segment") },
  { 13, 4, "number", ProtoField.uint32("mitch.snapshot_complete.instrument_id", "instrument_id") },
  { 19, 1, "number", ProtoField.uint8("mitch.snapshot_complete.sub_book_flags", "sub_book_flags") },
  { 20, 1, "text", ProtoField.string("mitch.snapshot_complete.trading_status", "trading_status") },
} }
-- End of the generated table.
for _, layout in pairs(messages) do
  for _, field in ipairs(layout.fields) do
    fields[#fields + 1] = field[4]
  end
end

local function price_text(value)
  local text = tostring(value)
  local sign = ""
  if text:sub(1, 1) == "-" then
    sign, text = "-", text:sub(2)
  end
  text = string.rep("0", 9 - #text) .. text
  return sign .. text:sub(1, -9) .. "." .. text:sub(-8)
end

local function dissect_unit(tvb, pinfo, tree)
  pinfo.cols.protocol = "MITCH"
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
    local name = layout and layout.name or string.format("Unknown 0x%02x", type)
    names[#names + 1] = name
    local message = unit:add(mitch, tvb(at, length), name)
    message:add_le(fields.message_length, tvb(at, 2))
    message:add(fields.message_type, tvb(at + 2, 1))
    if layout and layout.bytes == length then
      for _, field in ipairs(layout.fields) do
        local range = tvb(at + field[1], field[2])
        if field[3] == "price" then
          message:add_le(field[4], range):append_text(" (" .. price_text(range:le_int64()) .. ")")
        elseif field[3] == "text" then
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
  pinfo.cols.info = #names == 0 and "Heartbeat" or table.concat(names, ", ")
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

DissectorTable.get("udp.port"):add_for_decode_as(mitch)
DissectorTable.get("tcp.port"):add_for_decode_as(mitch)
