-- Wireshark dissector of binary order entry (docs/sbe.md).
-- scripts/sbe_dissector.py generates the tables from pitwire-order-entry.xml; do not edit them.
--
--   tshark -X lua_script:pitwire-order-entry.lua -d tcp.port==9001,pitwire-sbe -r capture.pcapng -V

local sbe = Proto("pitwire-sbe", "Pitwire Order Entry")
local fields = sbe.fields
fields.frame_length = ProtoField.uint32("pitwire-sbe.frame.length", "Frame Length")
fields.encoding = ProtoField.uint16("pitwire-sbe.frame.encoding", "Encoding", base.HEX)
fields.block_length = ProtoField.uint16("pitwire-sbe.block_length", "Block Length")
fields.template = ProtoField.uint16("pitwire-sbe.template", "Template")
fields.schema = ProtoField.uint16("pitwire-sbe.schema", "Schema")
fields.version = ProtoField.uint16("pitwire-sbe.version", "Version")
local malformed =
  ProtoExpert.new("pitwire-sbe.malformed", "Malformed message", expert.group.MALFORMED, expert.severity.ERROR)
sbe.experts = { malformed }

local ENCODING, FRAME_HEADER, BOTH_HEADERS = 0xeb50, 6, 14

-- Each field of a block: offset, bytes, kind, protocol field. Each part behind it: the protocol
-- field of a text, or the name, the bytes and the fields of a group's entries.
-- Begin of the generated tables.
local SCHEMA, VERSION = 7401, 0
local enums = {}
enums.OrderSide = {
  [1] = "Buy",
  [2] = "Sell",
}
enums.EntryType = {
  [1] = "Market",
  [2] = "Limit",
  [3] = "StopMarket",
  [4] = "StopLimit",
}
enums.EntryTimeInForce = {
  [0] = "Default",
  [1] = "Day",
  [2] = "Gtc",
  [3] = "Gtd",
  [4] = "Gtt",
  [5] = "Ioc",
  [6] = "Fok",
  [7] = "Opg",
  [8] = "Gfa",
  [9] = "Gfx",
  [10] = "Atc",
  [11] = "Cpx",
}
enums.Flag = {
  [0] = "No",
  [1] = "Yes",
}
enums.MassCancelScope = {
  [1] = "All",
  [2] = "Instrument",
}
enums.QuerySubject = {
  [1] = "BestPrices",
  [2] = "Vwap",
  [3] = "Book",
  [4] = "Status",
}
enums.OrderStatus = {
  [1] = "Open",
  [2] = "Filled",
  [3] = "Cancelled",
  [4] = "Untriggered",
  [5] = "Triggered",
  [6] = "Rejected",
}
enums.ExecutionType = {
  [1] = "New",
  [2] = "Trade",
  [3] = "Amended",
  [4] = "Cancelled",
  [5] = "Triggered",
  [6] = "Rejected",
  [7] = "Restated",
}
enums.LiquidityFlag = {
  [0] = "None",
  [1] = "Added",
  [2] = "Removed",
}
local messages = {}
messages[1] = { name = "Logon", block = 202, fields = {
  { 0, 64, "text", ProtoField.string("pitwire-sbe.logon.client_id", "clientId") },
  { 64, 128, "text", ProtoField.string("pitwire-sbe.logon.secret", "secret") },
  { 192, 8, "number", ProtoField.uint64("pitwire-sbe.logon.next_sequence", "nextSequence") },
  { 200, 2, "number", ProtoField.uint16("pitwire-sbe.logon.heartbeat_s", "heartbeatS") },
}, parts = {
} }
messages[2] = { name = "LogonAccepted", block = 24, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.logon_accepted.epoch", "epoch") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.logon_accepted.next_sequence", "nextSequence") },
  { 16, 8, "number", ProtoField.uint64("pitwire-sbe.logon_accepted.oldest_sequence", "oldestSequence") },
}, parts = {
} }
messages[3] = { name = "Logout", block = 4, fields = {
  { 0, 4, "number", ProtoField.int32("pitwire-sbe.logout.code", "code") },
}, parts = {
  { text = ProtoField.string("pitwire-sbe.logout.reason", "reason") },
} }
messages[4] = { name = "Heartbeat", block = 8, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.heartbeat.next_sequence", "nextSequence") },
}, parts = {
} }
messages[5] = { name = "RetransmitRequest", block = 16, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.retransmit_request.from_sequence", "fromSequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.retransmit_request.to_sequence", "toSequence") },
}, parts = {
} }
messages[6] = { name = "RetransmitComplete", block = 24, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.retransmit_complete.from_sequence", "fromSequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.retransmit_complete.to_sequence", "toSequence") },
  { 16, 8, "number", ProtoField.uint64("pitwire-sbe.retransmit_complete.missing", "missing") },
}, parts = {
} }
messages[10] = { name = "NewOrder", block = 129, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.new_order.request_id", "requestId") },
  { 8, 64, "text", ProtoField.string("pitwire-sbe.new_order.client_order_id", "clientOrderId") },
  { 72, 4, "number", ProtoField.uint32("pitwire-sbe.new_order.instrument_id", "instrumentId") },
  { 76, 1, "number", ProtoField.uint8("pitwire-sbe.new_order.side", "side", base.DEC, enums.OrderSide) },
  { 77, 1, "number", ProtoField.uint8("pitwire-sbe.new_order.order_type", "orderType", base.DEC, enums.EntryType) },
  { 78, 1, "number", ProtoField.uint8("pitwire-sbe.new_order.time_in_force", "timeInForce", base.DEC, enums.EntryTimeInForce) },
  { 79, 1, "number", ProtoField.uint8("pitwire-sbe.new_order.hidden", "hidden", base.DEC, enums.Flag) },
  { 80, 1, "number", ProtoField.uint8("pitwire-sbe.new_order.post_only", "postOnly", base.DEC, enums.Flag) },
  { 81, 8, "decimal", ProtoField.int64("pitwire-sbe.new_order.quantity", "quantity") },
  { 89, 8, "decimal", ProtoField.int64("pitwire-sbe.new_order.price", "price") },
  { 97, 8, "decimal", ProtoField.int64("pitwire-sbe.new_order.trigger_price", "triggerPrice") },
  { 105, 8, "decimal", ProtoField.int64("pitwire-sbe.new_order.display_quantity", "displayQuantity") },
  { 113, 8, "decimal", ProtoField.int64("pitwire-sbe.new_order.minimum_quantity", "minimumQuantity") },
  { 121, 8, "number", ProtoField.uint64("pitwire-sbe.new_order.expires", "expires") },
}, parts = {
} }
messages[11] = { name = "AmendOrder", block = 56, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.amend_order.request_id", "requestId") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.amend_order.order_id", "orderId") },
  { 16, 8, "decimal", ProtoField.int64("pitwire-sbe.amend_order.quantity", "quantity") },
  { 24, 8, "decimal", ProtoField.int64("pitwire-sbe.amend_order.price", "price") },
  { 32, 8, "decimal", ProtoField.int64("pitwire-sbe.amend_order.trigger_price", "triggerPrice") },
  { 40, 8, "decimal", ProtoField.int64("pitwire-sbe.amend_order.display_quantity", "displayQuantity") },
  { 48, 8, "decimal", ProtoField.int64("pitwire-sbe.amend_order.minimum_quantity", "minimumQuantity") },
}, parts = {
} }
messages[12] = { name = "CancelOrder", block = 16, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.cancel_order.request_id", "requestId") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.cancel_order.order_id", "orderId") },
}, parts = {
} }
messages[13] = { name = "MassCancel", block = 13, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.mass_cancel.request_id", "requestId") },
  { 8, 1, "number", ProtoField.uint8("pitwire-sbe.mass_cancel.scope", "scope", base.DEC, enums.MassCancelScope) },
  { 9, 4, "number", ProtoField.uint32("pitwire-sbe.mass_cancel.instrument_id", "instrumentId") },
}, parts = {
} }
messages[14] = { name = "MarketQuery", block = 15, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.market_query.request_id", "requestId") },
  { 8, 4, "number", ProtoField.uint32("pitwire-sbe.market_query.instrument_id", "instrumentId") },
  { 12, 1, "number", ProtoField.uint8("pitwire-sbe.market_query.subject", "subject", base.DEC, enums.QuerySubject) },
  { 13, 2, "number", ProtoField.uint16("pitwire-sbe.market_query.depth", "depth") },
}, parts = {
} }
messages[20] = { name = "OrderAccepted", block = 105, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.order_accepted.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.order_accepted.request_id", "requestId") },
  { 16, 8, "number", ProtoField.uint64("pitwire-sbe.order_accepted.order_id", "orderId") },
  { 24, 64, "text", ProtoField.string("pitwire-sbe.order_accepted.client_order_id", "clientOrderId") },
  { 88, 1, "number", ProtoField.uint8("pitwire-sbe.order_accepted.status", "status", base.DEC, enums.OrderStatus) },
  { 89, 8, "decimal", ProtoField.int64("pitwire-sbe.order_accepted.quantity", "quantity") },
  { 97, 8, "decimal", ProtoField.int64("pitwire-sbe.order_accepted.filled_quantity", "filledQuantity") },
}, parts = {
} }
messages[21] = { name = "MassCancelAccepted", block = 20, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.mass_cancel_accepted.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.mass_cancel_accepted.request_id", "requestId") },
  { 16, 4, "number", ProtoField.uint32("pitwire-sbe.mass_cancel_accepted.cancelled", "cancelled") },
}, parts = {
} }
messages[22] = { name = "ExecutionReport", block = 176, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.execution_report.sequence", "sequence") },
  { 8, 1, "number", ProtoField.uint8("pitwire-sbe.execution_report.execution_type", "executionType", base.DEC, enums.ExecutionType) },
  { 9, 1, "number", ProtoField.uint8("pitwire-sbe.execution_report.status", "status", base.DEC, enums.OrderStatus) },
  { 10, 1, "number", ProtoField.uint8("pitwire-sbe.execution_report.side", "side", base.DEC, enums.OrderSide) },
  { 11, 1, "number", ProtoField.uint8("pitwire-sbe.execution_report.liquidity", "liquidity", base.DEC, enums.LiquidityFlag) },
  { 12, 4, "number", ProtoField.uint32("pitwire-sbe.execution_report.instrument_id", "instrumentId") },
  { 16, 8, "number", ProtoField.uint64("pitwire-sbe.execution_report.order_id", "orderId") },
  { 24, 64, "text", ProtoField.string("pitwire-sbe.execution_report.client_order_id", "clientOrderId") },
  { 88, 8, "decimal", ProtoField.int64("pitwire-sbe.execution_report.price", "price") },
  { 96, 8, "decimal", ProtoField.int64("pitwire-sbe.execution_report.quantity", "quantity") },
  { 104, 8, "decimal", ProtoField.int64("pitwire-sbe.execution_report.filled_quantity", "filledQuantity") },
  { 112, 8, "decimal", ProtoField.int64("pitwire-sbe.execution_report.last_price", "lastPrice") },
  { 120, 8, "decimal", ProtoField.int64("pitwire-sbe.execution_report.last_quantity", "lastQuantity") },
  { 128, 8, "number", ProtoField.uint64("pitwire-sbe.execution_report.trade_sequence", "tradeSequence") },
  { 136, 8, "number", ProtoField.uint64("pitwire-sbe.execution_report.transact_time_ms", "transactTimeMs") },
  { 144, 32, "text", ProtoField.string("pitwire-sbe.execution_report.cancel_reason", "cancelReason") },
}, parts = {
} }
messages[23] = { name = "Reject", block = 22, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.reject.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.reject.request_id", "requestId") },
  { 16, 2, "number", ProtoField.uint16("pitwire-sbe.reject.template_id", "templateId") },
  { 18, 4, "number", ProtoField.int32("pitwire-sbe.reject.code", "code") },
}, parts = {
  { text = ProtoField.string("pitwire-sbe.reject.name", "name") },
  { text = ProtoField.string("pitwire-sbe.reject.reason", "reason") },
  { text = ProtoField.string("pitwire-sbe.reject.remedy", "remedy") },
} }
messages[24] = { name = "BestPrices", block = 52, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.best_prices.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.best_prices.request_id", "requestId") },
  { 16, 4, "number", ProtoField.uint32("pitwire-sbe.best_prices.instrument_id", "instrumentId") },
  { 20, 8, "decimal", ProtoField.int64("pitwire-sbe.best_prices.bid_price", "bidPrice") },
  { 28, 8, "decimal", ProtoField.int64("pitwire-sbe.best_prices.bid_quantity", "bidQuantity") },
  { 36, 8, "decimal", ProtoField.int64("pitwire-sbe.best_prices.ask_price", "askPrice") },
  { 44, 8, "decimal", ProtoField.int64("pitwire-sbe.best_prices.ask_quantity", "askQuantity") },
}, parts = {
} }
messages[25] = { name = "Vwap", block = 44, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.vwap.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.vwap.request_id", "requestId") },
  { 16, 4, "number", ProtoField.uint32("pitwire-sbe.vwap.instrument_id", "instrumentId") },
  { 20, 8, "decimal", ProtoField.int64("pitwire-sbe.vwap.trades", "trades") },
  { 28, 8, "decimal", ProtoField.int64("pitwire-sbe.vwap.bid", "bid") },
  { 36, 8, "decimal", ProtoField.int64("pitwire-sbe.vwap.ask", "ask") },
}, parts = {
} }
messages[26] = { name = "Book", block = 20, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.book.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.book.request_id", "requestId") },
  { 16, 4, "number", ProtoField.uint32("pitwire-sbe.book.instrument_id", "instrumentId") },
}, parts = {
  { name = "levels", bytes = 17, entry = {
    { 0, 1, "number", ProtoField.uint8("pitwire-sbe.book.levels.side", "side", base.DEC, enums.OrderSide) },
    { 1, 8, "decimal", ProtoField.int64("pitwire-sbe.book.levels.price", "price") },
    { 9, 8, "decimal", ProtoField.int64("pitwire-sbe.book.levels.quantity", "quantity") },
  } },
} }
messages[27] = { name = "InstrumentStatus", block = 84, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.instrument_status.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.instrument_status.request_id", "requestId") },
  { 16, 4, "number", ProtoField.uint32("pitwire-sbe.instrument_status.instrument_id", "instrumentId") },
  { 20, 32, "text", ProtoField.string("pitwire-sbe.instrument_status.session", "session") },
  { 52, 32, "text", ProtoField.string("pitwire-sbe.instrument_status.state", "state") },
}, parts = {
} }
messages[28] = { name = "ReportsLost", block = 16, fields = {
  { 0, 8, "number", ProtoField.uint64("pitwire-sbe.reports_lost.sequence", "sequence") },
  { 8, 8, "number", ProtoField.uint64("pitwire-sbe.reports_lost.count", "count") },
}, parts = {
} }
-- End of the generated tables.
local function register(list)
  for _, field in ipairs(list) do
    fields[#fields + 1] = field[4]
  end
end
for _, layout in pairs(messages) do
  register(layout.fields)
  for _, part in ipairs(layout.parts) do
    if part.entry then
      register(part.entry)
    else
      fields[#fields + 1] = part.text
    end
  end
end

local function decimal_text(value)
  local text = tostring(value)
  if text == "-9223372036854775808" then
    return "none"
  end
  local sign = ""
  if text:sub(1, 1) == "-" then
    sign, text = "-", text:sub(2)
  end
  text = string.rep("0", 9 - #text) .. text
  return sign .. text:sub(1, -9) .. "." .. text:sub(-8)
end

local function add_block(tree, block, list)
  for _, field in ipairs(list) do
    local range, kind, proto = block(field[1], field[2]), field[3], field[4]
    if kind == "decimal" then
      tree:add_le(proto, range):append_text(" (" .. decimal_text(range:le_int64()) .. ")")
    elseif kind == "text" then
      tree:add(proto, range, (range:raw():gsub("%z.*", "")))
    else
      tree:add_le(proto, range)
    end
  end
end

-- Adds the groups and texts behind the block. Returns whether they fill the frame.
local function add_parts(tree, tvb, at, parts)
  for _, part in ipairs(parts) do
    if part.entry then
      if at + 4 > tvb:len() or tvb(at, 2):le_uint() ~= part.bytes then
        return false
      end
      local count = tvb(at + 2, 2):le_uint()
      at = at + 4
      if at + count * part.bytes > tvb:len() then
        return false
      end
      for number = 1, count do
        local range = tvb(at, part.bytes)
        add_block(tree:add(sbe, range, part.name .. " " .. number), range, part.entry)
        at = at + part.bytes
      end
    else
      if at + 2 > tvb:len() or at + 2 + tvb(at, 2):le_uint() > tvb:len() then
        return false
      end
      local bytes = tvb(at, 2):le_uint()
      local text = bytes > 0 and tvb(at + 2, bytes):raw() or ""
      tree:add(part.text, tvb(at, 2 + bytes), text)
      at = at + 2 + bytes
    end
  end
  return at == tvb:len()
end

local function dissect_frame(tvb, pinfo, tree)
  pinfo.cols.protocol = "SBE"
  local frame = tree:add(sbe, tvb())
  if tvb:len() < BOTH_HEADERS or tvb(4, 2):uint() ~= ENCODING then
    frame:add_proto_expert_info(malformed)
    return tvb:len()
  end
  frame:add(fields.frame_length, tvb(0, 4))
  frame:add(fields.encoding, tvb(4, 2))
  frame:add_le(fields.block_length, tvb(6, 2))
  frame:add_le(fields.template, tvb(8, 2))
  frame:add_le(fields.schema, tvb(10, 2))
  frame:add_le(fields.version, tvb(12, 2))
  local layout = messages[tvb(8, 2):le_uint()]
  local name = layout and layout.name or "Unknown template " .. tvb(8, 2):le_uint()
  frame:append_text(", " .. name)
  pinfo.cols.info:append(pinfo.private["pitwire-sbe"] and ", " .. name or name)
  pinfo.private["pitwire-sbe"] = "1"
  local is_ours = tvb(10, 2):le_uint() == SCHEMA and tvb(12, 2):le_uint() == VERSION
  if layout and is_ours then
    local behind = BOTH_HEADERS + layout.block
    local is_whole = tvb(6, 2):le_uint() == layout.block and behind <= tvb:len()
    if is_whole then
      add_block(frame, tvb(BOTH_HEADERS, layout.block), layout.fields)
    end
    if not is_whole or not add_parts(frame, tvb, behind, layout.parts) then
      frame:add_proto_expert_info(malformed)
    end
  else
    frame:add_proto_expert_info(malformed)
  end
  return tvb:len()
end

local function frame_length(tvb, _, offset)
  if tvb(offset + 4, 2):uint() ~= ENCODING then
    return tvb:len() - offset
  end
  return math.max(tvb(offset, 4):uint(), FRAME_HEADER)
end

function sbe.dissector(tvb, pinfo, tree)
  pinfo.cols.info = ""
  dissect_tcp_pdus(tvb, tree, FRAME_HEADER, frame_length, dissect_frame)
  return tvb:len()
end

DissectorTable.get("tcp.port"):add_for_decode_as(sbe)
