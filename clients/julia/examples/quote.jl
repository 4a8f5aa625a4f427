# Quotes a tenth below the best bid, prints what happens to the order, and cancels it.
# julia --project=. examples/quote.jl ws://127.0.0.1:8080/ws/api/v2
using Pitwire

url = isempty(ARGS) ? "ws://127.0.0.1:8080/ws/api/v2" : first(ARGS)
venue = connect(url; client_id="demo-a", client_secret="demo-a-secret",
                on_state=(state, cause) -> println("connection: $state $cause"))
closed, best = Channel{Nothing}(1), Channel{Float64}(Inf)
follow_own(venue; on_trade=fill -> println("traded $(fill.amount) at $(fill.price)"), on_order=function (order)
    println("order $(order.order_id) at $(order.price): $(order.order_state)")
    order.order_state == "open" || put!(closed, nothing)
end)
# Wait until the book is complete and has a bid.
follow_book(book -> isempty(book.bids) || put!(best, first(first(bids(book)))), venue, "BTC_USDC")
try
    placed = place(venue, "buy", "BTC_USDC", 0.01; price=floor(take!(best) * 0.9), post_only=true)
    cancel(venue, placed.order.order_id)
    take!(closed)
catch error
    error isa OrderUnknown || rethrow()
    found = resolve(venue, error.label)
    println(found === nothing ? "the order was not entered" : "order $(found.order_id) was entered")
end
close(venue)
