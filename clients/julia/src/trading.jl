"Time after `valid_until` before \"not found\" is believed. It covers the error of the clock."
const CLOCK_MARGIN_MS = 1000
const QUERY_PAUSE_S = 0.25
const HISTORY_COUNT = 1000

"Milliseconds since 1970 after which the venue refuses a request that is sent now."
deadline_ms(venue::Venue) = venue_clock_ms(venue) + round(Int, venue.validity_s * 1000)

"""
Enters an order; `side` is `buy` or `sell`. Further parameters of the dialect may be added. If the
answer is lost it throws `OrderUnknown`: the order may exist, and `resolve` finds out. Any other error
says that the order was not entered.
"""
function place(venue::Venue, side, instrument, amount; price=nothing, label=next_label!(venue),
               valid_until=deadline_ms(venue), more...)
    params = Dict{Symbol,Any}(:type => price === nothing ? "market" : "limit")
    price === nothing || (params[:price] = price)
    merge!(params, Dict{Symbol,Any}(more))
    try
        return call(venue, "private/$side"; instrument_name=instrument, amount, label, valid_until, params...)
    catch error
        error isa Unanswered || rethrow()
        venue.unknown[label] = (instrument, valid_until)
        throw(OrderUnknown(label, error.cause))
    end
end

function next_label!(venue::Venue)
    label = "$(venue.label_prefix)-$(venue.next_label)"
    venue.next_label += 1
    return label
end

"""
Finds out whether an order exists whose answer was lost. Returns `nothing` if it does not: this is
certain only after `valid_until`, because until then the venue may still read the request.
"""
function resolve(venue::Venue, label)
    haskey(venue.unknown, label) ||
        throw(InvalidUse("no order is unknown by the label $label", "resolve an OrderUnknown"))
    instrument, valid_until_ms = venue.unknown[label]
    find(orders) = findfirst(order -> get(order, :label, "") == label, orders)
    while true
        asked_ms = venue_clock_ms(venue)
        orders = call(venue, "private/get_open_orders_by_instrument"; instrument_name=instrument)
        if find(orders) === nothing
            # An order that closes between the two queries is in the history.
            orders = call(venue, "private/get_order_history_by_instrument"; instrument_name=instrument,
                          count=HISTORY_COUNT, include_unfilled=true)
        end
        found = find(orders)
        if found !== nothing || asked_ms > valid_until_ms + CLOCK_MARGIN_MS
            delete!(venue.unknown, label)
            return found === nothing ? nothing : orders[found]
        end
        sleep(QUERY_PAUSE_S)
    end
end

"Changes the total amount and the price of an order. After `Unanswered` query the order."
amend(venue::Venue, order_id, amount; more...) =
    call(venue, "private/edit"; order_id, amount, valid_until=deadline_ms(venue), more...)

"Cancels an order. After `Unanswered` query the order."
cancel(venue::Venue, order_id) = call(venue, "private/cancel"; order_id)

"Cancels all orders of the account and returns their number."
cancel_all(venue::Venue) = call(venue, "private/cancel_all")

order(venue::Venue, order_id) = call(venue, "private/get_order_state"; order_id)

open_orders(venue::Venue) = call(venue, "private/get_open_orders")

"""
Follows the own orders and trades. Each fill is delivered once, before the state of its order.
`on_restart` says that notices may be missing after a cut: query open orders and trades.
"""
function follow_own(venue::Venue; on_order=order -> nothing, on_trade=fill -> nothing, on_restart=restart -> nothing)
    seen = Set{String}()
    subscribe(venue, "user.changes.any.any.raw"; on_restart) do data
        for fill in get(data, :trades, [])
            fill.trade_id in seen && continue
            push!(seen, fill.trade_id)
            on_trade(fill)
        end
        foreach(on_order, get(data, :orders, []))
    end
end

"""
Follows a book and returns it. `on_change` is called when the book is complete and after each change.
After a gap the book is empty until the venue has sent a new snapshot. `interval` is `raw`, `100ms` or
`agg2`.
"""
function follow_book(on_change, venue::Venue, instrument; interval="100ms")
    book, name, is_repairing = OrderBook(), "book.$instrument.$interval", Ref(false)
    subscribe(venue, name) do data
        try
            apply!(book, data) && on_change(book)
        catch error
            error isa BookFault || rethrow()
            on_change(book)
            is_repairing[] || @async repair(venue, name, book, is_repairing)
        end
    end
    return book
end

"Asks for a snapshot until it is there: the request or the snapshot may be lost in another cut."
function repair(venue::Venue, name, book, is_repairing)
    is_repairing[] = true
    pause = GrowingPause(venue.first_pause_s, venue.longest_pause_s)
    while book.change_id === nothing && venue.end_cause === nothing && haskey(venue.channels, name)
        try
            restart(venue, name)
        catch error
            error isa PitwireError || rethrow()
        end
        sleep(next!(pause))
    end
    is_repairing[] = false
end
