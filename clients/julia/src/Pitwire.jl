"""
Trading client of a Pitwire venue.

    venue = connect("ws://127.0.0.1:8080/ws/api/v2"; client_id="demo-a", client_secret="demo-a-secret")
    outcome = place(venue, "buy", "BTC_USDC", 0.1; price=59000)
    cancel(venue, outcome.order.order_id)
    close(venue)

Orders and fills are JSON objects with the names of the dialect. Numbers are floats or integers.
"""
module Pitwire

export Venue, connect, call, subscribe, unsubscribe, place, resolve, amend, cancel, cancel_all
export order, open_orders, follow_own, follow_book, OrderBook, bids, asks, venue_clock_ms
export PitwireError, Refused, NotSent, Unanswered, OrderUnknown, ConnectionFailed

include("errors.jl")
include("book.jl")
include("channel.jl")
include("connection.jl")
include("trading.jl")

end
