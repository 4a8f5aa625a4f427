using Dates: now, UTC, datetime2unix
using HTTP: HTTP
using JSON3: JSON3
using Random: RandomDevice
using SHA: hmac_sha256

"The venue takes resume tokens of this many channels in one request."
const CHANNELS_PER_REQUEST = 100
const TOO_MANY_REQUESTS = 10028
"Wrong credentials, an invalid token, a closed account: the next attempt fails as well."
const FINAL_CODES = (13004, 13009, 11042)
const SILENT_HEARTBEATS = 3

"""
A connection to a venue. After a cut it reconnects with pauses, logs in, and resumes its channels.
Use it from the tasks of one thread. Handlers run on a task of their own, in the order of the
messages, and may make calls.
"""
mutable struct Venue
    url::String
    client_id::Union{String,Nothing}
    client_secret::Union{String,Nothing}
    timeout_s::Float64
    validity_s::Float64
    first_pause_s::Float64
    longest_pause_s::Float64
    heartbeat_s::Int
    cancel_on_disconnect::Bool
    on_state::Function
    socket::Any
    is_ready::Bool
    end_cause::Union{String,Nothing}
    became_ready::Threads.Condition
    pending::Dict{Int,Channel{Any}}
    channels::Dict{String,VenueChannel}
    handlers::Channel{Function}
    next_id::Int
    next_label::Int
    label_prefix::String
    clock_offset_ms::Float64
    last_received::Float64
    unknown::Dict{String,Tuple{String,Int}}
end

"""
Connects, and logs in if there are credentials. The secret signs the login and is never sent.

- `timeout_s`: longest wait for a connection, and for the answer to one call.
- `validity_s`: the venue refuses an order that it reads later than this after the call.
- `first_pause_s`, `longest_pause_s`: pauses between attempts to reconnect double up to a bound.
- `heartbeat_s`: interval of heartbeats. A socket that is silent for three of them is dead.
- `cancel_on_disconnect`: the venue cancels the orders of this connection when its socket closes.
- `on_state(state, cause)`: called when the connection is `:ready`, `:reconnecting` or `:ended`.
"""
function connect(url::String; client_id=nothing, client_secret=nothing, timeout_s=10, validity_s=5,
                 first_pause_s=0.1, longest_pause_s=10, heartbeat_s=30, cancel_on_disconnect=false,
                 on_state=(state, cause) -> nothing)
    prefix = "pw-" * bytes2hex(rand(RandomDevice(), UInt8, 4))
    venue = Venue(url, client_id, client_secret, timeout_s, validity_s, first_pause_s, longest_pause_s, heartbeat_s,
                  cancel_on_disconnect, on_state, nothing, false, nothing, Threads.Condition(), Dict(), Dict(),
                  Channel{Function}(Inf), 1, 1, prefix, 0, time(), Dict())
    open!(venue)
    errormonitor(@async for handler in venue.handlers
        handler()
    end)
    @async watch(venue)
    return venue
end

"Returns the venue's wall clock in milliseconds since 1970, estimated from its last answer."
venue_clock_ms(venue::Venue) = round(Int, datetime2unix(now(UTC)) * 1000 + venue.clock_offset_ms)

"""
Sends a call and returns its result. After an answer `too_many_requests` the call waits as long as the
venue demands, and is repeated. Throws `Refused`, `NotSent` or `Unanswered`.
"""
function call(venue::Venue, method::String; params...)
    deadline = time() + venue.timeout_s
    pause = GrowingPause(0.1, 5)
    while true
        wait_until_ready(venue, method, deadline)
        try
            return send(venue, method, Dict{Symbol,Any}(params), deadline - time())
        catch error
            (error isa Refused && error.code == TOO_MANY_REQUESTS) || rethrow()
            wait_ms = detail(error, :retry_after_ms, nothing)
            wait_s = max(wait_ms === nothing ? next!(pause) : wait_ms / 1000, 0.001)
            time() + wait_s >= deadline && rethrow()
            sleep(wait_s)
        end
    end
end

"""
Subscribes to a channel. After a cut the venue sends the missed messages first. `on_restart` gets a
`Restart` if it cannot: messages may be missing or repeated, so query the state.
"""
function subscribe(on_data, venue::Venue, name::String; on_restart=restart -> nothing)
    haskey(venue.channels, name) &&
        throw(InvalidUse("the connection has the channel $name already", "use that subscription"))
    queued(handler) = data -> put!(venue.handlers, () -> handler(data))
    # The channel is known before the answer, because a reconnection meanwhile must subscribe it.
    channel = venue.channels[name] = VenueChannel(name, queued(on_data), queued(on_restart))
    try
        request_channel(venue, channel)
    catch
        delete!(venue.channels, name)
        rethrow()
    end
    return name
end

function unsubscribe(venue::Venue, name::String)
    channel = pop!(venue.channels, name, nothing)
    channel === nothing || call(venue, method(channel, "unsubscribe"); channels=[name])
    return nothing
end

"Asks the venue for the whole state of a channel again."
function restart(venue::Venue, name::String)
    channel = get(venue.channels, name, nothing)
    channel === nothing && return
    call(venue, method(channel, "unsubscribe"); channels=[name])
    channel.token = nothing
    request_channel(venue, channel)
end

function request_channel(venue::Venue, channel::VenueChannel)
    granted = call(venue, method(channel, "subscribe"); subscription([channel])...)
    channel.name in granted || throw(InvalidUse("the venue has no channel $(channel.name)", "check its name"))
end

subscription(channels) = (channels=[channel.name for channel in channels],
                          resume=Dict(channel.name => channel.token for channel in channels))

"Ends the connection. Calls without an answer fail."
Base.close(venue::Venue) = end!(venue, "it was closed by its user")

function open!(venue::Venue)
    opened = Channel{Any}(1)
    @async try
        HTTP.WebSockets.open(venue.url; connect_timeout=ceil(Int, venue.timeout_s)) do socket
            venue.socket = socket
            venue.last_received = time()
            put!(opened, nothing)
            for text in socket
                receive(venue, socket, String(text))
            end
        end
        lose(venue, "the venue closed the connection")
    catch error
        cause = sprint(showerror, error)
        isready(opened) ? nothing : put!(opened, ConnectionFailed(venue.url, cause))
        lose(venue, cause)
    end
    failure = take!(opened)
    failure === nothing || throw(failure)
    try
        prepare(venue)
    catch
        drop(venue, "the connection could not be prepared")
        rethrow()
    end
    venue.is_ready = true
    wake(venue)
    venue.on_state(:ready, "")
end

function prepare(venue::Venue)
    ask(method; params...) = send(venue, method, Dict{Symbol,Any}(params), venue.timeout_s)
    if venue.client_id !== nothing && venue.client_secret !== nothing
        # The answer has the venue's clock, so a wrong clock here does not spoil the signature.
        ask("public/hello"; client_name="pitwire-julia", client_version="0.1.0")
        ask("public/auth"; signed_login(venue)...)
        venue.cancel_on_disconnect && ask("private/enable_cancel_on_disconnect"; scope="connection")
    end
    venue.heartbeat_s > 0 && ask("public/set_heartbeat"; interval=max(venue.heartbeat_s, 10))
    for wanted in (false, true)
        known = [channel for channel in values(venue.channels) if is_private(channel.name) == wanted]
        for some in Iterators.partition(known, CHANNELS_PER_REQUEST)
            granted = ask(method(first(some), "subscribe"); subscription(some)...)
            for channel in some
                channel.name in granted && continue
                delete!(venue.channels, channel.name)
                channel.on_restart(Restart(channel.name, "nothing", "refused"))
            end
        end
    end
end

"Returns the parameters of a login by signature. They do not contain the secret."
function signed_login(venue::Venue)
    timestamp = venue_clock_ms(venue)
    nonce = bytes2hex(rand(RandomDevice(), UInt8, 8))
    signature = bytes2hex(hmac_sha256(Vector{UInt8}(venue.client_secret), "$timestamp\n$nonce\n"))
    return (; grant_type="client_signature", venue.client_id, timestamp, nonce, data="", signature)
end

function wait_until_ready(venue::Venue, method, deadline)
    while !venue.is_ready
        venue.end_cause === nothing || throw(NotSent(method, venue.end_cause))
        left_s = deadline - time()
        left_s > 0 || throw(NotSent(method, "there is no connection"))
        timer = Timer(_ -> wake(venue), left_s)
        lock(() -> venue.is_ready || wait(venue.became_ready), venue.became_ready)
        close(timer)
    end
end

wake(venue::Venue) = lock(() -> notify(venue.became_ready), venue.became_ready)

function send(venue::Venue, method, params, patience_s)
    socket = venue.socket
    socket === nothing && throw(NotSent(method, "the connection is cut"))
    id, sent = venue.next_id, time()
    venue.next_id += 1
    answer = venue.pending[id] = Channel{Any}(1)
    text = JSON3.write((; jsonrpc="2.0", id, method, params))
    timer = Timer(_ -> isready(answer) || put!(answer, Unanswered(method, "nothing in $patience_s s")), patience_s)
    try
        HTTP.WebSockets.send(socket, text)
    catch error
        lose(venue, sprint(showerror, error))
    end
    message = take!(answer)
    close(timer)
    delete!(venue.pending, id)
    if message isa PitwireError
        venue.last_received < sent && socket === venue.socket && lose(venue, "the venue sent nothing after a request")
        throw(message isa Unanswered ? Unanswered(method, message.cause) : message)
    end
    refusal = get(message, :error, nothing)
    refusal === nothing && return message.result
    throw(Refused(method, refusal.code, get(refusal, :message, ""), get(refusal, :data, nothing)))
end

function receive(venue::Venue, socket, text)
    socket === venue.socket || return
    venue.last_received = time()
    message = JSON3.read(text)
    haskey(message, :usOut) && (venue.clock_offset_ms = message.usOut / 1000 - datetime2unix(now(UTC)) * 1000)
    kind = get(message, :method, "")
    if kind == ""
        answer = get(venue.pending, get(message, :id, 0), nothing)
        answer === nothing || isready(answer) || put!(answer, message)
    elseif kind == "heartbeat"
        message.params.type == "test_request" || return
        test = (; jsonrpc="2.0", id=0, method="public/test", params=(;))
        @async try HTTP.WebSockets.send(socket, JSON3.write(test)) catch; end
    else
        channel = get(venue.channels, get(message.params, :channel, ""), nothing)
        channel === nothing && return
        kind == "subscription" && receive!(channel, message.params)
        kind == "pitwire_resume" && resume!(channel, message.params)
    end
end

"Finds a socket that has died without a word."
function watch(venue::Venue)
    limit_s = venue.heartbeat_s * SILENT_HEARTBEATS
    while venue.end_cause === nothing && limit_s > 0
        sleep(1)
        venue.is_ready && time() - venue.last_received > limit_s && lose(venue, "the venue sent nothing for $limit_s s")
    end
end

function lose(venue::Venue, cause)
    venue.socket === nothing && return
    was_ready = venue.is_ready
    drop(venue, cause)
    # While a connection is being prepared, its maker sees the failed call and tries again.
    was_ready && venue.end_cause === nothing && @async reconnect(venue, cause)
end

"Forgets a socket. The venue may have executed the calls without an answer."
function drop(venue::Venue, cause)
    socket, venue.socket, venue.is_ready = venue.socket, nothing, false
    socket === nothing || @async try close(socket) catch; end
    foreach(channel -> empty!(channel.held), values(venue.channels))
    for answer in values(venue.pending)
        isready(answer) || put!(answer, Unanswered("", cause))
    end
end

function reconnect(venue::Venue, cause)
    pause = GrowingPause(venue.first_pause_s, venue.longest_pause_s)
    while venue.end_cause === nothing
        venue.on_state(:reconnecting, cause)
        sleep(next!(pause))
        venue.end_cause === nothing || return
        try
            return open!(venue)
        catch error
            error isa Refused && error.code in FINAL_CODES && return end!(venue, sprint(showerror, error))
            cause = sprint(showerror, error)
        end
    end
end

function end!(venue::Venue, cause)
    venue.end_cause === nothing || return
    venue.end_cause = cause
    drop(venue, cause)
    close(venue.handlers)
    wake(venue)
    venue.on_state(:ended, cause)
    return nothing
end

"Pauses that double up to a bound. A random half keeps clients from returning all at once."
mutable struct GrowingPause
    next_s::Float64
    longest_s::Float64
end

function next!(pause::GrowingPause)
    bound = pause.next_s
    pause.next_s = min(bound * 2, pause.longest_s)
    return bound * (0.5 + rand() / 2)
end
