// The functions of clients/c/pitwire_client.h.
#include "../c/pitwire_client.h"

#include <deque>
#include <sstream>

#include "feed_handler.hpp"
#include "order_session.hpp"

namespace {

thread_local std::string lastError;

/// Runs a function. No exception may reach a caller in another language.
template <typename Result, typename Run> Result guarded(Result failed, Run run) {
    try {
        return run();
    } catch (const std::exception &error) {
        lastError = error.what();
        return failed;
    }
}

template <std::size_t SIZE> void copyText(char (&to)[SIZE], const std::string &from) {
    std::snprintf(to, SIZE, "%s", from.c_str());
}

/// Keeps the messages of a session until pitwire_poll() takes them.
class Queue : public MessageHandler {
public:
    bool take(pitwire_message &message) {
        if (messages_.empty()) {
            return false;
        }
        message = messages_.front();
        messages_.pop_front();
        return true;
    }

    using MessageHandler::on;

    void on(sbe::OrderAccepted &from) override {
        auto &message = answer(PITWIRE_ORDER_ACCEPTED, from.requestId());
        message.order_id = from.orderId();
        message.status = from.status();
        message.quantity = from.quantity().mantissa();
        message.filled_quantity = from.filledQuantity().mantissa();
        copyText(message.client_order_id, from.getClientOrderIdAsString());
    }

    void on(sbe::MassCancelAccepted &from) override {
        answer(PITWIRE_MASS_CANCEL_ACCEPTED, from.requestId()).cancelled = from.cancelled();
    }

    void on(sbe::Reject &from) override {
        auto &message = answer(PITWIRE_REJECT, from.requestId());
        message.code = from.code();
        // The texts have to be read in the order of the schema.
        auto text = from.getNameAsString();
        text += ": " + from.getReasonAsString();
        text += "; " + from.getRemedyAsString();
        copyText(message.text, text);
    }

    void on(sbe::ExecutionReport &from) override {
        auto &message = answer(PITWIRE_EXECUTION_REPORT, 0);
        message.execution_type = from.executionType();
        message.status = from.status();
        message.side = from.side();
        message.instrument_id = from.instrumentId();
        message.order_id = from.orderId();
        message.price = from.price().mantissa();
        message.quantity = from.quantity().mantissa();
        message.filled_quantity = from.filledQuantity().mantissa();
        message.last_price = from.lastPrice().mantissa();
        message.last_quantity = from.lastQuantity().mantissa();
        copyText(message.client_order_id, from.getClientOrderIdAsString());
    }

    void on(sbe::BestPrices &from) override {
        auto &message = answer(PITWIRE_BEST_PRICES, from.requestId());
        message.instrument_id = from.instrumentId();
        message.bid_price = from.bidPrice().mantissa();
        message.bid_quantity = from.bidQuantity().mantissa();
        message.ask_price = from.askPrice().mantissa();
        message.ask_quantity = from.askQuantity().mantissa();
    }

    void on(sbe::Vwap &from) override {
        auto &message = answer(PITWIRE_VWAP, from.requestId());
        message.instrument_id = from.instrumentId();
        message.price = from.trades().mantissa();
        message.bid_price = from.bid().mantissa();
        message.ask_price = from.ask().mantissa();
    }

    void on(sbe::Book &from) override {
        const auto request = from.requestId();
        const auto instrument = from.instrumentId();
        from.levels().forEach([&](sbe::Book::Levels &level) {
            auto &message = answer(PITWIRE_BOOK, request);
            message.instrument_id = instrument;
            message.side = level.side();
            message.price = level.price().mantissa();
            message.quantity = level.quantity().mantissa();
        });
        answer(PITWIRE_BOOK, request).instrument_id = instrument;
    }

    void on(sbe::InstrumentStatus &from) override {
        auto &message = answer(PITWIRE_INSTRUMENT_STATUS, from.requestId());
        message.instrument_id = from.instrumentId();
        // The texts are padded with NUL.
        const auto session = from.getSessionAsString(), state = from.getStateAsString();
        copyText(message.text, std::string(session.c_str()) + " " + state.c_str());
    }

    void onLost() override { answer(PITWIRE_LOST, 0); }

private:
    pitwire_message &answer(std::int32_t kind, std::uint64_t requestId) {
        pitwire_message message{};
        message.kind = kind;
        message.request_id = requestId;
        for (auto *decimal : {&message.price, &message.quantity, &message.filled_quantity, &message.last_price,
                              &message.last_quantity, &message.bid_price, &message.bid_quantity, &message.ask_price,
                              &message.ask_quantity}) {
            *decimal = PITWIRE_NONE;
        }
        return messages_.emplace_back(message);
    }

    std::deque<pitwire_message> messages_;
};

template <typename Levels>
std::int32_t copyLevels(const Levels &from, std::int64_t lotSize, pitwire_level *to, std::int32_t capacity) {
    std::int32_t count = 0;
    for (const auto &[price, level] : from) {
        if (count < capacity) {
            to[count] = {price, level.lots * lotSize};
        }
        count++;
    }
    return count;
}

} // namespace

struct pitwire_session {
    Queue messages;
    OrderSession session;

    pitwire_session(const char *address, const char *clientId, const char *secret)
        : session(Address(address), clientId, secret, messages) {}
};

struct pitwire_feed {
    FeedHandler handler;
};

namespace {

/// Sends a request and passes on its id.
template <typename Send> std::int32_t request(std::uint64_t *requestId, Send send) {
    return guarded(PITWIRE_FAILED, [&] {
        *requestId = send();
        return 0;
    });
}

/// Refuses an enumeration that the schema does not have.
void requireBetween(const char *name, std::int32_t value, std::int32_t least, std::int32_t most) {
    if (value < least || value > most) {
        throw std::invalid_argument(std::string(name) + " " + std::to_string(value) + ": expected " +
                                    std::to_string(least) + " to " + std::to_string(most));
    }
}

} // namespace

const char *pitwire_error(void) { return lastError.c_str(); }

pitwire_session *pitwire_log_on(const char *address, const char *client_id, const char *secret) {
    return guarded<pitwire_session *>(nullptr, [&] { return new pitwire_session(address, client_id, secret); });
}

void pitwire_log_out(pitwire_session *session) { delete session; }

int32_t pitwire_enter_limit(pitwire_session *session, const char *client_order_id, uint32_t instrument_id,
                            int32_t side, int64_t quantity, int64_t price, uint64_t *request_id) {
    return request(request_id, [&] {
        requireBetween("side", side, 1, 2);
        return session->session.enterLimit(client_order_id, instrument_id, static_cast<sbe::OrderSide::Value>(side),
                                           quantity, price);
    });
}

int32_t pitwire_amend(pitwire_session *session, uint64_t order_id, int64_t quantity, int64_t price,
                      uint64_t *request_id) {
    return request(request_id, [&] { return session->session.amend(order_id, quantity, price); });
}

int32_t pitwire_cancel(pitwire_session *session, uint64_t order_id, uint64_t *request_id) {
    return request(request_id, [&] { return session->session.cancel(order_id); });
}

int32_t pitwire_mass_cancel(pitwire_session *session, uint32_t instrument_id, uint64_t *request_id) {
    return request(request_id, [&] { return session->session.massCancel(instrument_id); });
}

int32_t pitwire_query(pitwire_session *session, uint32_t instrument_id, int32_t subject, int32_t depth,
                      uint64_t *request_id) {
    return request(request_id, [&] {
        requireBetween("subject", subject, 1, 4);
        requireBetween("depth", depth, 0, UINT16_MAX);
        return session->session.query(instrument_id, static_cast<sbe::QuerySubject::Value>(subject),
                                      static_cast<std::uint16_t>(depth));
    });
}

int32_t pitwire_poll(pitwire_session *session, int32_t timeout_ms, pitwire_message *message) {
    return guarded(PITWIRE_FAILED, [&] {
        if (session->messages.take(*message)) {
            return 1;
        }
        if (session->session.hasInput(std::chrono::milliseconds(timeout_ms))) {
            session->session.poll();
        }
        return session->messages.take(*message) ? 1 : 0;
    });
}

pitwire_feed *pitwire_feed_join(const char *lines, const char *recovery) {
    return guarded<pitwire_feed *>(nullptr, [&] {
        std::vector<Address> addresses;
        std::istringstream list(lines);
        for (std::string line; std::getline(list, line, ',');) {
            addresses.emplace_back(line);
        }
        return new pitwire_feed{FeedHandler(addresses, Address(recovery))};
    });
}

void pitwire_feed_leave(pitwire_feed *feed) { delete feed; }

int32_t pitwire_feed_poll(pitwire_feed *feed, int32_t timeout_ms) {
    return guarded(PITWIRE_FAILED, [&] {
        feed->handler.poll(timeout_ms);
        return 0;
    });
}

uint64_t pitwire_feed_newest(pitwire_feed *feed) { return feed->handler.newest(); }

uint64_t pitwire_feed_replays(pitwire_feed *feed) { return feed->handler.counts.replays; }

int32_t pitwire_feed_levels(pitwire_feed *feed, uint32_t instrument_id, int32_t side, pitwire_level *levels,
                            int32_t capacity) {
    return guarded(PITWIRE_FAILED, [&] {
        requireBetween("side", side, 1, 2);
        const auto &books = feed->handler.books().all();
        const auto found = books.find(instrument_id);
        if (found == books.end()) {
            throw std::invalid_argument("instrument " + std::to_string(instrument_id) + ": the feed does not have it");
        }
        const auto &book = found->second;
        return side == 1 ? copyLevels(book.bids, book.lotSize, levels, capacity)
                         : copyLevels(book.asks, book.lotSize, levels, capacity);
    });
}
