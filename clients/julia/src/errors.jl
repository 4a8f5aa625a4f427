"An error of this package. `remedy(error)` says what to do."
abstract type PitwireError <: Exception end

"The venue cannot be reached."
struct ConnectionFailed <: PitwireError
    url::String
    cause::String
end

"The call was not sent, so it had no effect."
struct NotSent <: PitwireError
    method::String
    cause::String
end

"The call was sent and its answer is missing. The venue may have executed it."
struct Unanswered <: PitwireError
    method::String
    cause::String
end

"The answer to an order is missing. Only a query tells whether the order exists: see `resolve`."
struct OrderUnknown <: PitwireError
    label::String
    cause::String
end

"The venue refused the call. It had no effect."
struct Refused <: PitwireError
    method::String
    code::Int
    message::String
    data::Any
end

"The caller used the package in a wrong way."
struct InvalidUse <: PitwireError
    what::String
    remedy::String
end

remedy(::ConnectionFailed) = "start the venue (pitwire up), and check that the URL is ws://HOST:PORT/ws/api/v2"
remedy(::NotSent) = "try again"
remedy(::Unanswered) = "it may have been executed: query the state before you repeat it"
remedy(error::OrderUnknown) = "the order may exist: resolve(venue, \"$(error.label)\")"
remedy(error::Refused) = string(detail(error, :remedy, ""))
remedy(error::InvalidUse) = error.remedy

detail(error::Refused, name::Symbol, default) = error.data === nothing ? default : get(error.data, name, default)

what(error::ConnectionFailed) = "cannot connect to $(error.url): $(error.cause)"
what(error::NotSent) = "$(error.method) was not sent: $(error.cause)"
what(error::Unanswered) = "$(error.method) has no answer: $(error.cause)"
what(error::OrderUnknown) = "the order $(error.label) has no answer: $(error.cause)"
what(error::Refused) = "$(error.method) was refused with $(error.code) $(error.message) $(detail(error, :reason, ""))"
what(error::InvalidUse) = error.what

Base.showerror(io::IO, error::PitwireError) = print(io, what(error), "; ", remedy(error))
