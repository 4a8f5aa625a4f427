# Runs against a venue without order flow, and against relays in front of it that inject one fault
# each. tests/test_clients_packages.py starts them. Each variable has the URL of one of them.
using Pitwire
using Test

login(variable, account; more...) =
    connect(ENV[variable]; client_id=account, client_secret="$account-secret", timeout_s=60, more...)
until(condition) = @test timedwait(condition, 120; pollint=0.01) == :ok

@testset "orders are placed, amended, cancelled and refused, and own notices report it" begin
    venue, other = login("PITWIRE_URL", "demo-a"), login("PITWIRE_URL", "demo-b")
    orders, fills = [], []
    follow_own(venue; on_order=order -> push!(orders, order), on_trade=fill -> push!(fills, fill))
    placed = place(venue, "buy", "NPN_ZAR", 3; price=3000)
    id = placed.order.order_id
    @test placed.order.order_state == "open" && isempty(placed.trades)
    amended = amend(venue, id, 2; price=3001)
    @test (amended.order.amount, amended.order.price) == (2, 3001)
    @test length(place(other, "sell", "NPN_ZAR", 1; price=3001).trades) == 1
    @test order(venue, id).filled_amount == 1
    @test cancel(venue, id).order_state == "cancelled"
    until(() -> !isempty(orders) && last(orders).order_state == "cancelled")
    @test [fill.order_id for fill in fills] == [id]
    @test_throws Refused cancel(venue, id)
    @test_throws Refused place(venue, "buy", "NPN_ZAR", -1; price=3000)
    close(venue)
    close(other)
    @test_throws NotSent open_orders(venue)
end

@testset "a wrong secret is refused" begin
    @test_throws Refused connect(ENV["PITWIRE_URL"]; client_id="demo-a", client_secret="wrong")
    @test_throws ConnectionFailed connect("ws://127.0.0.1:1/ws/api/v2")
end

@testset "a book with a lost change is fetched again" begin
    venue, maker = login("PITWIRE_GAP", "demo-a"), login("PITWIRE_URL", "demo-b")
    gaps = Ref(0)
    book = follow_book(book -> gaps[] += book.change_id === nothing, venue, "SBK_ZAR"; interval="raw")
    until(() -> book.change_id !== nothing)
    # The relay drops the message of the first change, so the second is no successor.
    place(maker, "buy", "SBK_ZAR", 3; price=150)
    place(maker, "buy", "SBK_ZAR", 3; price=151)
    until(() -> length(book.bids) == 2)
    place(maker, "buy", "SBK_ZAR", 3; price=149)
    until(() -> length(book.bids) == 3)
    @test gaps[] == 1
    @test bids(book) == [151 => 3, 150 => 3, 149 => 3]
    close(venue)
    close(maker)
end

@testset "an order whose answer is lost is unknown until a query finds it" begin
    venue = login("PITWIRE_LOST_ANSWER", "demo-a")
    error = try place(venue, "buy", "AGL_ZAR", 3; price=400) catch caught; caught end
    @test error isa OrderUnknown
    found = resolve(venue, error.label)
    @test found.order_state == "open"
    @test [one.order_id for one in open_orders(venue) if one.instrument_name == "AGL_ZAR"] == [found.order_id]
    close(venue)
end

@testset "an order whose request is lost was not entered" begin
    venue = login("PITWIRE_LOST_REQUEST", "demo-a")
    valid_until = venue_clock_ms(venue) + 500
    error = try place(venue, "buy", "BHG_ZAR", 3; price=400, valid_until) catch caught; caught end
    @test error isa OrderUnknown
    @test resolve(venue, error.label) === nothing
    @test venue_clock_ms(venue) > valid_until
    close(venue)
end

@testset "after a cut the missed notices arrive once and in order" begin
    states, prices, restarts = [], [], []
    venue = login("PITWIRE_CUT", "demo-a"; on_state=(state, cause) -> push!(states, state))
    trader = login("PITWIRE_URL", "demo-a")
    note(order) = order.instrument_name == "SOL_ZAR" && push!(prices, order.price)
    follow_own(venue; on_order=note, on_restart=restart -> push!(restarts, restart))
    # The relay cuts the connection in place of a notice and refuses the next two connections.
    foreach(price -> place(trader, "buy", "SOL_ZAR", 3; price), 100:111)
    until(() -> length(prices) >= 12)
    @test prices == 100:111
    @test isempty(restarts)
    @test count(==(:reconnecting), states) >= 2
    close(venue)
    close(trader)
end
