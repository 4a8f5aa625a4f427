"""Makes contracts/vectors/log/v2.txt from the layouts described in crates/journal, sharing no code
with them.

Run:  python3 crates/journal/tests/golden.py > contracts/vectors/log/v2.txt
      python3 crates/journal/tests/golden.py sessions > contracts/vectors/log/v2-sessions.txt
      python3 crates/journal/tests/golden.py reporting > contracts/vectors/log/v2-reporting.txt
      python3 crates/journal/tests/golden.py signatures > contracts/vectors/log/v2-signatures.txt
      python3 crates/journal/tests/golden.py flows > contracts/vectors/log/v2-flows.txt
      python3 crates/journal/tests/golden.py named-snapshots > contracts/vectors/log/v2-named-snapshots.txt
      python3 crates/journal/tests/golden.py snapshot > contracts/vectors/log/v4-snapshot.txt
The second file has what came with sessions and calls: new kinds and tags beside those of the first, which stay.
The third has what came with trade reporting, likewise, and the fourth used signatures. The fifth has a superblock
that names snapshots. The sixth is the snapshot, which has a separate layout version since then.
A line is a name, a space, and bytes in hex. A new layout is a new file, never an edit of an old one.
BLAKE3 and CRC-32C are written out here, from their specifications, because Python brings neither.
"""

import struct
import sys

# --- BLAKE3, one thread, default mode ----------------------------------------------------------
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MASK = 0xFFFFFFFF


def rotate(x, n):
    return ((x >> n) | (x << (32 - n))) & MASK


def mix(s, a, b, c, d, x, y):
    s[a] = (s[a] + s[b] + x) & MASK
    s[d] = rotate(s[d] ^ s[a], 16)
    s[c] = (s[c] + s[d]) & MASK
    s[b] = rotate(s[b] ^ s[c], 12)
    s[a] = (s[a] + s[b] + y) & MASK
    s[d] = rotate(s[d] ^ s[a], 8)
    s[c] = (s[c] + s[d]) & MASK
    s[b] = rotate(s[b] ^ s[c], 7)


def compress(cv, block, counter, length, flags):
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    s = list(cv) + IV[:4] + [counter & MASK, counter >> 32, length, flags]
    for _ in range(7):
        for i in range(4):
            mix(s, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1])
        for i in range(4):
            mix(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i])
        m = [m[p] for p in PERMUTATION]
    return [s[i] ^ s[i + 8] for i in range(8)]


def chunk(data, counter, root):
    cv = IV
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | root if i == len(blocks) - 1 else 0)
        cv = compress(cv, block, counter, len(block), flags)
    return cv


def subtree(data, counter, root):
    if len(data) <= 1024:
        return chunk(data, counter, root)
    left = 1024
    while left * 2 < len(data):
        left *= 2
    pair = subtree(data[:left], counter, 0) + subtree(data[left:], counter + left // 1024, 0)
    return compress(IV, struct.pack("<16I", *pair), 0, 64, PARENT | root)


def blake3(data):
    return struct.pack("<8I", *subtree(data, 0, ROOT))


def crc32c(data):
    crc = MASK
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ MASK


assert blake3(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
assert crc32c(b"123456789") == 0xE3069283

# --- the forms of fields -----------------------------------------------------------------------


def u8(x): return struct.pack("<B", x)
def u16(x): return struct.pack("<H", x)
def u32(x): return struct.pack("<I", x)
def u64(x): return struct.pack("<Q", x)
def i64(x): return struct.pack("<q", x)
def i128(x): return x.to_bytes(16, "little", signed=True)
def text(x): return u16(len(x.encode())) + x.encode()
def decimal(mantissa, scale): return i128(mantissa) + u8(scale)
def option(x): return u8(0) if x is None else u8(1) + x


BUY, SELL, DAY, GTC, IOC, FOK = 0, 1, 0, 1, 2, 3
FORMAT = 2
NO_LIMITS = option(None) * 3
LIMITS = option(u64(40)) + option(i128(10**25)) + option(u32(500))
# Self-match 0: the resting order goes.
PLAIN = u8(0) + option(None) + option(None)
SETTINGS = u8(2) + option(u32(100)) + option(u32(20) + u64(10**9))
CURRENCY = u32(3) + text("ZÄR") + u8(2)
SPOT = (u32(4) + text("NPN_ZAR") + u8(0) + u32(1) + u32(3) + decimal(1, 2) + decimal(1, 0) + i64(325000)
        + u32(1000000) + NO_LIMITS)
PERPETUAL = (u32(5) + text("BTC-PERPETUAL") + u8(1) + u32(6) + u32(7) + u32(2) + u32(50) + decimal(5, 1)
             + decimal(10, 0) + i64(120000) + u32(9) + LIMITS)
ACCOUNT = u32(8) + text("demo-a") + u8(0) + PLAIN


def limit(price): return u8(0) + i64(price)


MARKET = u8(1)
BUST = u32(4) + u64(77) + i64(101) + u64(5) + u32(2) + u32(8) + text("why")

COMMANDS = [
    ("start_epoch", 1, u64(7)),
    ("add_currency", 2, CURRENCY),
    ("add_spot", 3, SPOT),
    ("add_perpetual", 3, PERPETUAL),
    ("add_account", 4, ACCOUNT),
    ("add_house_account", 4, u32(9) + text("") + u8(1) + SETTINGS),
    ("deposit", 5, u32(8) + u32(3) + i128(-10**30)),
    ("set_phase", 6, u32(4) + u8(2)),
    ("enter_limit", 7, u64(8) + u32(8) + u32(4) + u8(SELL) + limit(-5) + u64(2**40) + u8(GTC) + u32(0)
     + text("mine") + u8(0)),
    ("enter_market", 7, u64(9) + u32(8) + u32(4) + u8(BUY) + MARKET + u64(1) + u8(IOC) + u32(0) + text("") + u8(0)),
    # Terms: 1 reprice, 4 display, 8 self-match, 32 group key, 64 goes with its session, 128 client
    # order id.
    ("enter_iceberg", 7, u64(10) + u32(8) + u32(4) + u8(SELL) + limit(-5) + u64(2**40) + u8(GTC) + u32(11)
     + text("mine") + u8(1 + 4 + 8 + 32 + 64 + 128) + u64(50) + u8(3) + u32(77) + text("a-1")),
    # 2 reject, 16 a separate group.
    ("enter_alone", 7, u64(11) + u32(8) + u32(4) + u8(SELL) + limit(-5) + u64(2**40) + u8(FOK) + u32(0)
     + text("") + u8(2 + 16)),
    ("amend", 8, u32(8) + u64(8) + i64(101) + u64(12) + u8(0) + u8(0) + option(None)),
    ("amend_losing", 8, u32(8) + u64(8) + i64(101) + u64(12) + u8(1) + u8(0) + option(None)),
    ("amend_iceberg", 8, u32(8) + u64(8) + i64(101) + u64(12) + u8(0) + u8(2) + option(u64(3))),
    ("cancel", 9, u32(8) + u64(8)),
    ("cancel_all", 10, u32(8) + u8(0) + u8(0)),
    ("cancel_all_of_one", 10, u32(8) + u8(0) + u8(1) + u32(4)),
    ("cancel_all_of_session", 10, u32(8) + u8(5) + u8(2) + u32(11)),
    ("cancel_all_listed", 10, u32(8) + u8(0) + u8(3) + u32(2) + u64(8) + u64(9)),
    ("close_window", 11, b""),
    ("sample_index", 12, b""),
    ("end_day", 13, b""),
    ("set_limits", 14, u32(4) + LIMITS),
    ("set_no_limits", 14, u32(4) + NO_LIMITS),
    ("delete_instrument", 15, u32(4)),
    ("set_account", 16, u32(8) + SETTINGS),
    ("set_credit_line", 17, u32(8) + u32(3) + i128(10**30)),
    ("close_account", 18, u32(8)),
    ("kill_order", 19, u8(0) + u64(8) + text("why")),
    ("kill_session", 19, u8(1) + u32(11) + text("")),
    ("kill_account", 19, u8(2) + u32(8) + text("why")),
    ("kill_venue", 19, u8(3) + text("why")),
    ("lift", 20, u8(2) + u32(8)),
    ("bust", 21, BUST),
    ("set_flow", 22, u8(1) + u32(250)),
    ("quarantine", 23, u64(5) + option(u32(4))),
    ("quarantine_nothing", 23, u64(5) + option(None)),
]


# --- what came with sessions -------------------------------------------------------------------
OPENING, CONTINUOUS, VOLATILITY, CLOSING, GTD, GTT, CPX = 5, 1, 7, 9, 4, 5, 10
NO_TOLERANCE = option(None) * 2
RULES = (text("ZA01") + option(u64(500)) + i64(2) + option(u32(40)) + option(u32(1000)) + option(u32(300))
         + option(u32(800)) + option(u32(600)) + 4 * NO_TOLERANCE + option(None) + option(u32(7)) + u8(1)
         + u64(300 * 10**9) + u64(10**8))


def entered(number, order_type, tif):
    return (u64(number) + u32(8) + u32(4) + u8(BUY) + order_type + u64(40) + tif + u32(0) + text("") + u8(0))


AMENDED_TERMS = option(i64(99)) + option(u64(20)) + option(u8(1) + u64(10**18))

SESSION_COMMANDS = [
    ("add_with_rules", 24, SPOT + RULES),
    ("enter_hidden", 7, entered(12, u8(2) + i64(101) + u64(20), u8(GTD) + u32(20454))),
    ("enter_stop", 7, entered(13, u8(3) + i64(99), u8(GTT) + u64(10**18))),
    ("enter_stop_limit", 7, entered(14, u8(4) + i64(99) + i64(98), u8(GTC))),
    ("enter_cpx", 7, entered(15, MARKET, u8(CPX))),
    ("amend_terms", 25, u32(8) + u64(8) + i64(101) + u64(12) + u8(0) + u8(0) + option(None) + AMENDED_TERMS),
    ("amend_date", 25, u32(8) + u64(8) + i64(101) + u64(12) + u8(0) + u8(0) + option(None)
     + option(None) + option(None) + option(u8(0) + u32(20454))),
    ("change_session", 26, u32(4) + u8(OPENING) + u8(4) + u64(10**18) + option(u64(10**18 + 5))),
    ("change_session_endless", 26, u32(4) + u8(CONTINUOUS) + u8(1) + u64(10**18) + option(None)),
    ("extend_session", 27, u32(4) + u64(10**18)),
    ("set_remaining", 28, u32(4) + bytes(range(16))),
    ("begin_day", 29, u32(20454) + u64(10**18)),
    ("pass_time", 30, b""),
    ("filter_hidden", 31, u32(4)),
    ("run_batch", 32, u32(4)),
    ("set_rules", 33, u32(4) + RULES),
    ("set_closing_price", 34, u32(4) + i64(102)),
]

SESSION_EVENTS = [
    ("instrument_added_with_rules", 44, None, SPOT + RULES),
    ("accepted_hidden", 7, None, u64(8) + u32(8) + u32(4) + u8(SELL) + u8(2) + i64(101) + u64(20) + u64(40)
     + u8(GTD) + u32(20454) + option(None)),
    ("trade_filter", 31, u32(4) + u64(77) + i64(101) + u64(5) + u8(BUY) + u8(1),
     u64(8) + u32(8) + u64(3) + u64(9) + u32(2) + u64(4)),
    ("trade_call", 31, u32(4) + u64(77) + i64(101) + u64(5) + u8(BUY) + u8(2) + u8(CLOSING),
     u64(8) + u32(8) + u64(3) + u64(9) + u32(2) + u64(4)),
    ("trade_cross", 31, u32(4) + u64(77) + i64(101) + u64(5) + u8(BUY) + u8(3),
     u64(8) + u32(8) + u64(3) + u64(9) + u32(2) + u64(4)),
    ("session_changed", 32, u32(4) + u8(CONTINUOUS) + u8(VOLATILITY) + u8(2) + option(u64(10**18)), b""),
    ("parked", 33, None, u64(8) + u32(8) + u32(4) + u64(40)),
    ("injected", 34, None, u64(8) + u32(8) + u32(4)),
    ("triggered", 35, None, u64(8) + u32(8) + u32(4) + i64(99)),
    ("indicative", 36, u32(4) + option(i64(101)) + u64(700) + i64(-30), b""),
    ("indicative_none", 36, u32(4) + option(None) + u64(0) + i64(0), b""),
    ("uncrossed", 37, u32(4) + u8(OPENING) + i64(101) + u64(700), b""),
    ("breached", 38, u32(4) + i64(111) + i64(100) + u8(1) + u32(300), b""),
    ("closing_price_set", 39, u32(4) + i64(102) + u8(1), b""),
    ("day_begun", 40, None, u32(20454)),
    ("remaining_set", 41, None, u32(4)),
    ("rules_set", 42, None, u32(4) + RULES),
    ("amended_terms", 43, None, u64(8) + u32(8) + u32(4) + u8(SELL) + i64(102) + u64(6) + u64(5) + u8(1)
     + option(None) + AMENDED_TERMS),
    ("cancelled_nothing_executes", 10, None, u64(8) + u32(8) + u32(4) + u8(SELL) + i64(101) + u64(3)
     + u8(17)),
    ("rejected_not_amendable", 8, None, u64(8) + u32(8) + u8(41)),
]


# --- what came with trade reporting ------------------------------------------------------------
REPORT = u32(4) + u32(8) + u32(2) + u8(SELL) + i64(101) + u64(40) + text("block")

REPORTING_COMMANDS = [
    ("set_reporting", 35, u32(4) + u8(1) + u8(0) + u64(10**18) + option(u64(10**18 + 5))),
    ("set_reporting_shut", 35, u32(4) + u8(0) + u8(4) + u64(10**18) + option(None)),
    ("report_trade", 36, REPORT),
    ("confirm_report", 37, u32(2) + u64(77) + u8(1)),
    ("decline_report", 37, u32(2) + u64(77) + u8(0)),
]

REPORTING_EVENTS = [
    ("reporting_changed", 45, u32(4) + u8(1) + u8(0) + option(u64(10**18)), b""),
    ("reporting_shut", 45, u32(4) + u8(0) + u8(4) + option(None), b""),
    ("trade_reported", 46, None, u64(77) + REPORT),
    ("report_ended", 47, None, u64(77) + u32(4) + u32(8) + u32(2) + u8(1)),
    ("off_book_trade", 48, u32(4) + u64(3) + i64(101) + u64(40), u64(77) + u32(2) + u32(8)),
    ("refused_reporting_closed", 14, None, u8(43)),
]


SIGNATURE_COMMANDS = [
    ("order_signature", 38, bytes([1] * 32) + u32(8) + u64(1_700_000_000_000) + u8(0)),
    ("login_signature", 38, bytes([2] * 32) + u32(8) + u64(1_700_000_000_001) + u8(1)),
    ("login_from_ipv4", 38, bytes([3] * 32) + u32(8) + u64(1_700_000_000_002) + u8(2) + bytes([10, 0, 0, 1])),
    ("login_from_ipv6", 38, bytes([4] * 32) + u32(8) + u64(1_700_000_000_003) + u8(3) + bytes(15) + u8(1)),
]


def record(kind, seq, at, body):
    rest = u8(kind) + u8(1) + u64(seq) + u64(at) + body
    return u32(4 + len(rest)) + rest


# (name, tag, public fields or None, private fields)
EVENTS = [
    ("epoch_started", 1, None, u64(7)),
    ("currency_added", 2, None, CURRENCY),
    ("instrument_added", 3, None, SPOT),
    ("account_added", 4, None, ACCOUNT),
    ("deposited", 5, None, u32(8) + u32(3) + i128(10**30)),
    ("phase_changed", 6, u32(4) + u8(1), b""),
    ("accepted", 7, None, u64(8) + u32(8) + u32(4) + u8(SELL) + limit(101) + u64(5) + u8(DAY)
     + option(None)),
    ("accepted_iceberg", 7, None, u64(8) + u32(8) + u32(4) + u8(SELL) + limit(101) + u64(5) + u8(DAY)
     + option(u64(2))),
    ("rejected", 8, None, u64(8) + u32(8) + u8(6)),
    ("trade", 9, u32(4) + u64(77) + i64(101) + u64(5) + u8(BUY),
     u64(8) + u32(8) + u64(3) + u64(9) + u32(2) + u64(4)),
    ("cancelled", 10, None, u64(8) + u32(8) + u32(4) + u8(SELL) + i64(101) + u64(3) + u8(2)),
    ("amended", 11, None, u64(8) + u32(8) + u32(4) + u8(SELL) + i64(102) + u64(6) + u64(5) + u8(1)
     + option(None)),
    ("amend_refused", 12, None, u64(8) + u32(8) + u8(12)),
    ("cancel_refused", 13, None, u64(8) + u32(8) + u8(10)),
    ("command_refused", 14, None, u8(15)),
    ("level", 15, u32(4) + u8(SELL) + i64(101) + u64(3), b""),
    ("book_changed", 16, u32(4) + u64(4242), b""),
    ("window_closed", 17, b"", b""),
    ("index_sampled", 18, u32(5) + i64(120001) + i64(119999), b""),
    ("day_ended", 19, None, b""),
    ("refreshed", 20, None, u64(8) + u32(8) + u32(4) + u8(SELL) + i64(101) + u64(3)),
    ("limits_set", 21, None, u32(4) + LIMITS),
    ("account_set", 22, None, u32(8) + SETTINGS),
    ("credit_line_set", 23, None, u32(8) + u32(3) + i128(10**30)),
    ("account_closed", 24, None, u32(8)),
    ("killed", 25, None, u8(1) + u32(11) + u32(9) + text("why")),
    ("lifted", 26, None, u8(3)),
    ("throttle_tripped", 27, None, u32(8)),
    ("trade_busted", 28, u32(4) + u64(77) + i64(101) + u64(5), u32(2) + u32(8) + text("why")),
    ("flow_set", 29, None, u8(1) + u32(250)),
    ("quarantined", 30, None, u64(5)),
]


def event(tag, public, private):
    return u8(tag) + (public or b"") + private


def public_event(at, tag, public):
    return u8(tag) + u64(at) + public


def output_chain(output, seq, at, events):
    return blake3(output + u64(seq) + u64(at) + b"".join(event(t, p, q) for _, t, p, q in events))


def group(number, first, records, watermark, previous, output):
    payload = b"".join(records)
    size = -(-(128 + len(payload) + 16) // 4096) * 4096
    head = (b"PITWGRP\n" + u16(FORMAT) + u16(3) + u32(1 if output else 0) + u64(number) + u64(first) + u32(len(records))
            + u32(len(payload)) + u32(size) + u32(0) + u64(watermark) + previous + (output or bytes(32)))
    assert len(head) == 120
    whole = head + bytes(4) + u32(crc32c(head)) + payload
    whole = whole.ljust(size - 16, b"\xA5") + b"PITWEND\n" + u64(number)
    return whole[:120] + u32(crc32c(whole)) + whole[124:]


def superblock(generation, watermark, number, segment, offset, digest, named=()):
    slot = (b"PITWSUP\n" + u16(FORMAT) + u16(0) + bytes(4) + u64(generation) + u64(watermark) + u64(number)
            + u32(segment) + u32(len(named)) + u64(offset) + digest
            + b"".join(u64(seq) + closing_hash for seq, closing_hash in named)).ljust(4096, b"\xA5")
    return slot[:12] + u32(crc32c(slot)) + slot[16:]


def snapshot(payload, layout=FORMAT):
    body = (b"PITWSNAP" + u16(layout) + u16(3) + u32(0) + u64(18) + u64(1018) + u32(2) + u32(0) + u64(8192) + u64(5)
            + u64(19) + bytes([1] * 32) + bytes([2] * 32) + u64(18) + u64(19) + u64(20) + u64(21)
            + u64(0) + u32(12) + b"a short tape"
            + u64(len(payload)) + payload)
    return body + blake3(body)


def later(commands, events):
    for n, (name, kind, body) in enumerate(commands, start=1):
        sys.stdout.write("command." + name + " " + record(kind, n, 1000 + n, body).hex() + "\n")
    for name, tag, public, private in events:
        sys.stdout.write("event." + name + " " + event(tag, public, private).hex() + "\n")
        if public is not None:
            encoded = public_event(1_700_000_000_000_000_000, tag, public)
            sys.stdout.write("public." + name + " " + encoded.hex() + "\n")


def main():
    out = []
    records = []
    for n, (name, kind, body) in enumerate(COMMANDS, start=1):
        records.append(record(kind, n, 1000 + n, body))
        out.append(("command." + name, records[-1]))
    for name, tag, public, private in EVENTS:
        out.append(("event." + name, event(tag, public, private)))
        if public is not None:
            out.append(("public." + name, public_event(1_700_000_000_000_000_000, tag, public)))
    # The chains over two commands: the first with every event, the second with nothing public.
    at = 1_700_000_000_000_000_000
    first = output_chain(bytes(32), 1, at, EVENTS)
    quiet = [e for e in EVENTS if e[2] is None]
    out.append(("chain.output", output_chain(first, 2, at + 5, quiet)))
    tape = b"".join(public_event(at, t, p) for _, t, p, _ in EVENTS if p is not None)
    out.append(("chain.tape", blake3(tape)))
    one = group(1, 1, records, 0, bytes(32), bytes([9] * 32))
    out.append(("group.1", one))
    after = len(records) + 1
    closing = [record(11, n, 2000, b"") for n in range(after, after + 200)]
    two = group(2, after, closing, after - 1, blake3(one), None)
    out.append(("group.2", two))
    out.append(("superblock", superblock(6, after + 199, 2, 1, 12288, blake3(two))))
    out.append(("snapshot", snapshot(b"payload" * 300)))
    for name, data in out:
        sys.stdout.write(name + " " + data.hex() + "\n")


def snapshots():
    sys.stdout.write("snapshot " + snapshot(b"payload" * 300, layout=4).hex() + "\n")


def sessions():
    later(SESSION_COMMANDS, SESSION_EVENTS)


def reporting():
    later(REPORTING_COMMANDS, REPORTING_EVENTS)


def signatures():
    later(SIGNATURE_COMMANDS, [])


def flows():
    text_of_file = "[[flow]]\n" + "#" * 300
    later([("built_in_flow", 39, text("market")), ("flow_file", 39, text(text_of_file))], [("flow_defined", 49, None, b"")])


def named_snapshots():
    # The superblock of the first file, with snapshots.
    block = bytes.fromhex(dict(line.split(" ") for line in open("contracts/vectors/log/v2.txt"))["superblock"])
    newest, before = (9, bytes([8] * 32)), (5, bytes([4] * 32))
    watermark, digest = int.from_bytes(block[24:32], "little"), block[56:88]
    for name, named in [("one", [newest]), ("two", [newest, before])]:
        made = superblock(6, watermark, 2, 1, 12288, digest, named)
        sys.stdout.write("superblock." + name + " " + made.hex() + "\n")


MODES = {"sessions": sessions, "reporting": reporting, "snapshot": snapshots, "signatures": signatures}
MODES["flows"] = flows
MODES["named-snapshots"] = named_snapshots
if __name__ == "__main__":
    MODES.get("".join(sys.argv[1:]), main)()
