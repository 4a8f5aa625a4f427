"A copy of a venue's book. Each change must name the change before it."
mutable struct OrderBook
    bids::Dict{Float64,Float64}
    asks::Dict{Float64,Float64}
    "Number of the last change; `nothing` while the book waits for a snapshot."
    change_id::Union{Int,Nothing}
end

OrderBook() = OrderBook(Dict(), Dict(), nothing)

"The book cannot follow its channel any more. A new snapshot is necessary."
struct BookFault <: Exception
    what::String
end

"Returns the bids as pairs of price and amount, best first."
bids(book::OrderBook) = sort!(collect(book.bids); by=first, rev=true)

"Returns the offers as pairs of price and amount, best first."
asks(book::OrderBook) = sort!(collect(book.asks); by=first)

function clear!(book::OrderBook)
    empty!(book.bids)
    empty!(book.asks)
    book.change_id = nothing
end

"""
Applies the data of a message of `book.INSTRUMENT.INTERVAL`. Returns false if the book has the change
already or waits for a snapshot. Throws a `BookFault`, and empties the book, if the message does not
continue it.
"""
function apply!(book::OrderBook, message)
    previous = get(message, :prev_change_id, nothing)
    if previous === nothing
        clear!(book)
    elseif book.change_id === nothing || message.change_id <= book.change_id
        return false
    elseif previous != book.change_id
        fail(book, "expected a change after $(book.change_id), not $previous")
    end
    book.change_id = message.change_id
    for (side, levels) in ((book.bids, message.bids), (book.asks, message.asks)), (action, price, amount) in levels
        action == "new" || haskey(side, price) || fail(book, "$action of the unknown price $price")
        action == "delete" ? delete!(side, price) : (side[price] = amount)
    end
    return true
end

function fail(book::OrderBook, what::String)
    clear!(book)
    throw(BookFault(what))
end
