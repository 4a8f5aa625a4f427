# Binary order entry and the order-by-order feed by the C library clients/c/pitwire_client.h, which
# describes the functions. This file has never been run: no Julia was available. Prices and
# quantities are whole numbers of 1e-8. PITWIRE_CLIENT_LIBRARY names the library.
module BinaryEntry

const LIBRARY = get(ENV, "PITWIRE_CLIENT_LIBRARY", "libpitwire_client.so")

struct Message
    kind::Int32
    status::Int32
    side::Int32
    execution_type::Int32
    code::Int32
    instrument_id::UInt32
    request_id::UInt64
    order_id::UInt64
    cancelled::UInt64
    price::Int64
    quantity::Int64
    filled_quantity::Int64
    last_price::Int64
    last_quantity::Int64
    bid_price::Int64
    bid_quantity::Int64
    ask_price::Int64
    ask_quantity::Int64
    client_order_id::NTuple{72,UInt8}
    text::NTuple{512,UInt8}
end

struct Level
    price::Int64
    quantity::Int64
end

"Text of a field that ends with NUL."
text(bytes) = String(collect(Iterators.takewhile(!=(0x00), bytes)))

"Cause of the last failure."
last_error() = unsafe_string(
    ccall((:pitwire_error, LIBRARY), Cstring, ()))
log_on(address, client_id, secret) =
    ccall((:pitwire_log_on, LIBRARY), Ptr{Cvoid}, (Cstring, Cstring, Cstring),
        address, client_id, secret)
log_out(session) =
    ccall((:pitwire_log_out, LIBRARY), Cvoid, (Ptr{Cvoid},),
        session)
enter_limit(session, client_order_id, instrument_id, side, quantity, price, request_id) =
    ccall((:pitwire_enter_limit, LIBRARY), Int32, (Ptr{Cvoid}, Cstring, UInt32, Int32, Int64, Int64, Ref{UInt64}),
        session, client_order_id, instrument_id, side, quantity, price, request_id)
amend(session, order_id, quantity, price, request_id) =
    ccall((:pitwire_amend, LIBRARY), Int32, (Ptr{Cvoid}, UInt64, Int64, Int64, Ref{UInt64}),
        session, order_id, quantity, price, request_id)
cancel(session, order_id, request_id) =
    ccall((:pitwire_cancel, LIBRARY), Int32, (Ptr{Cvoid}, UInt64, Ref{UInt64}),
        session, order_id, request_id)
mass_cancel(session, instrument_id, request_id) =
    ccall((:pitwire_mass_cancel, LIBRARY), Int32, (Ptr{Cvoid}, UInt32, Ref{UInt64}),
        session, instrument_id, request_id)
query(session, instrument_id, subject, depth, request_id) =
    ccall((:pitwire_query, LIBRARY), Int32, (Ptr{Cvoid}, UInt32, Int32, Int32, Ref{UInt64}),
        session, instrument_id, subject, depth, request_id)
poll(session, timeout_ms, message) =
    ccall((:pitwire_poll, LIBRARY), Int32, (Ptr{Cvoid}, Int32, Ref{Message}),
        session, timeout_ms, message)
feed_join(lines, recovery) =
    ccall((:pitwire_feed_join, LIBRARY), Ptr{Cvoid}, (Cstring, Cstring),
        lines, recovery)
feed_leave(feed) =
    ccall((:pitwire_feed_leave, LIBRARY), Cvoid, (Ptr{Cvoid},),
        feed)
feed_poll(feed, timeout_ms) =
    ccall((:pitwire_feed_poll, LIBRARY), Int32, (Ptr{Cvoid}, Int32),
        feed, timeout_ms)
feed_newest(feed) =
    ccall((:pitwire_feed_newest, LIBRARY), UInt64, (Ptr{Cvoid},),
        feed)
feed_replays(feed) =
    ccall((:pitwire_feed_replays, LIBRARY), UInt64, (Ptr{Cvoid},),
        feed)
feed_levels(feed, instrument_id, side, levels, capacity) =
    ccall((:pitwire_feed_levels, LIBRARY), Int32, (Ptr{Cvoid}, UInt32, Int32, Ptr{Level}, Int32),
        feed, instrument_id, side, levels, capacity)

end
