"""
A channel that could not continue where it was cut. `by` is what the venue sent instead: `history`,
`snapshot` or `nothing`. docs/resume.md lists the reasons; `refused` means that the channel ended.
"""
struct Restart
    channel::String
    by::String
    reason::String
end

"Reasons of a channel that misses nothing."
const SETTLED = ("new", "already_subscribed")

"A subscribed channel and its place in it, from which it resumes after a cut."
mutable struct VenueChannel
    name::String
    on_data::Function
    on_restart::Function
    "The last message as EPOCH:NUMBER; `nothing` if the next subscription begins with the state."
    token::Union{String,Nothing}
    epoch::String
    "Messages of a private channel that wait for the token which completes them."
    held::Vector{Any}
end

VenueChannel(name, on_data, on_restart) = VenueChannel(name, on_data, on_restart, nothing, "", [])

is_private(name::AbstractString) = startswith(name, "user.") || startswith(name, "drop_copy.")
method(channel::VenueChannel, verb) = (is_private(channel.name) ? "private/" : "public/") * verb

function receive!(channel::VenueChannel, params)
    data = params.data
    if !is_private(channel.name)
        number = last_number(data)
        if !isempty(channel.epoch) && number !== nothing
            channel.token = "$(channel.epoch):$number"
        end
        channel.on_data(data)
        return
    end
    push!(channel.held, data)
    token = get(params, :token, nothing)
    # Messages without a token belong to the next one with a token. After a cut all of them return.
    token === nothing && channel.token !== nothing && return
    channel.token = token
    release!(channel)
end

"Takes the notice that follows the missed messages."
function resume!(channel::VenueChannel, notice)
    release!(channel)
    token = get(notice, :token, nothing)
    if token !== nothing
        channel.token = token
        channel.epoch = first(split(token, ':'))
    end
    reason = get(notice, :reason, "")
    if notice.by != "messages" && !(reason in SETTLED)
        channel.on_restart(Restart(channel.name, notice.by, reason))
    end
end

function release!(channel::VenueChannel)
    held, channel.held = channel.held, []
    foreach(channel.on_data, held)
end

"The number by which books and trades resume."
function last_number(data)
    data isa AbstractVector && return isempty(data) ? nothing : get(last(data), :trade_seq, nothing)
    return data isa AbstractDict ? get(data, :change_id, nothing) : nothing
end
