// A session of binary order entry: docs/sbe.md.
#pragma once

#include <pitwire_sbe/AmendOrder.h>
#include <pitwire_sbe/BestPrices.h>
#include <pitwire_sbe/Book.h>
#include <pitwire_sbe/CancelOrder.h>
#include <pitwire_sbe/ExecutionReport.h>
#include <pitwire_sbe/Heartbeat.h>
#include <pitwire_sbe/InstrumentStatus.h>
#include <pitwire_sbe/Logon.h>
#include <pitwire_sbe/LogonAccepted.h>
#include <pitwire_sbe/Logout.h>
#include <pitwire_sbe/MarketQuery.h>
#include <pitwire_sbe/MassCancel.h>
#include <pitwire_sbe/MassCancelAccepted.h>
#include <pitwire_sbe/MessageHeader.h>
#include <pitwire_sbe/NewOrder.h>
#include <pitwire_sbe/OrderAccepted.h>
#include <pitwire_sbe/Reject.h>
#include <pitwire_sbe/ReportsLost.h>
#include <pitwire_sbe/RetransmitComplete.h>
#include <pitwire_sbe/RetransmitRequest.h>
#include <pitwire_sbe/Vwap.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net.hpp"

namespace sbe = pitwire::sbe;

/// Prices and quantities are whole numbers of 1e-8; the smallest number means "none".
constexpr std::int64_t NONE = std::numeric_limits<std::int64_t>::min();

/// Receives the numbered messages of a session, each once and in order. A message is valid during
/// the call only, and its fields must be read in the order of the schema.
struct MessageHandler {
    virtual ~MessageHandler() = default;
    virtual void on(sbe::OrderAccepted &) {}
    virtual void on(sbe::MassCancelAccepted &) {}
    virtual void on(sbe::Reject &) {}
    virtual void on(sbe::ExecutionReport &) {}
    virtual void on(sbe::BestPrices &) {}
    virtual void on(sbe::Vwap &) {}
    virtual void on(sbe::Book &) {}
    virtual void on(sbe::InstrumentStatus &) {}
    /// Messages or reports are missing for good: query the orders.
    virtual void onLost() {}
};

/// The gateway numbers its messages, so the session detects missing ones and requests them. After a
/// cut it logs on again with the number of the first message that it does not have. Then it sends
/// the requests again that have no answer. Use a session on one thread.
class OrderSession {
public:
    /// Connects and logs on. Messages from now on go to the handler.
    OrderSession(Address address, std::string clientId, std::string secret, MessageHandler &handler)
        : address_(std::move(address)), clientId_(std::move(clientId)), secret_(std::move(secret)), handler_(handler),
          received_(64 << 10) {
        try {
            connect();
        } catch (const ConnectionError &error) {
            throw unreachable(error.what());
        }
    }

    /// Enters a limit order. `clientOrderId` must be unique: the venue does not enter a repeated
    /// order with the same one, so the session can send an order again whose answer was lost.
    std::uint64_t enterLimit(const std::string &clientOrderId, std::uint32_t instrument, sbe::OrderSide::Value side,
                             std::int64_t quantity, std::int64_t price) {
        return request<sbe::NewOrder>([&](sbe::NewOrder &order) {
            order.putClientOrderId(clientOrderId).instrumentId(instrument).side(side);
            order.orderType(sbe::EntryType::Limit).timeInForce(sbe::EntryTimeInForce::Default);
            order.quantity().mantissa(quantity);
            order.price().mantissa(price);
            order.triggerPrice().mantissa(NONE);
            order.displayQuantity().mantissa(NONE);
            order.minimumQuantity().mantissa(NONE);
        });
    }

    std::uint64_t amend(std::uint64_t orderId, std::int64_t quantity, std::int64_t price) {
        return request<sbe::AmendOrder>([&](sbe::AmendOrder &amend) {
            amend.orderId(orderId);
            amend.quantity().mantissa(quantity);
            amend.price().mantissa(price);
            amend.triggerPrice().mantissa(NONE);
            amend.displayQuantity().mantissa(NONE);
            amend.minimumQuantity().mantissa(NONE);
        });
    }

    std::uint64_t cancel(std::uint64_t orderId) {
        return request<sbe::CancelOrder>([&](sbe::CancelOrder &cancel) { cancel.orderId(orderId); });
    }

    /// Cancels all orders of the account in an instrument.
    std::uint64_t massCancel(std::uint32_t instrument) {
        return request<sbe::MassCancel>([&](sbe::MassCancel &cancel) {
            cancel.scope(sbe::MassCancelScope::Instrument).instrumentId(instrument);
        });
    }

    /// Asks for prices, VWAP, book or status. `depth` is the number of levels of a book.
    std::uint64_t query(std::uint32_t instrument, sbe::QuerySubject::Value subject, std::uint16_t depth) {
        return request<sbe::MarketQuery>(
            [&](sbe::MarketQuery &query) { query.instrumentId(instrument).subject(subject).depth(depth); });
    }

    /// Polls until the request has its answer.
    void awaitAnswer(std::uint64_t requestId) {
        while (unanswered_.count(requestId) > 0) {
            poll();
        }
    }

    /// Waits for a message, and passes the next numbered ones to the handler. Reconnects after a
    /// cut.
    void poll() {
        try {
            sendUnanswered();
            dispatch(receive(*socket_));
        } catch (const ConnectionError &cut) {
            reconnect(cut.what());
        }
    }

    /// Returns whether poll() has something to do within the timeout.
    bool hasInput(std::chrono::nanoseconds timeout) const {
        return start_ < end_ || missedEnd_ != 0 || isReadable(socket_->descriptor(), timeout);
    }

    /// Logs out. The orders stay in the market.
    ~OrderSession() {
        try {
            if (socket_) {
                Frame frame;
                encode<sbe::Logout>(frame).putReason("", 0);
                send(*socket_, frame, HEADERS + sbe::Logout::sbeBlockLength() + 2);
            }
        } catch (const ConnectionError &) {
            // The connection is closed in any case.
        }
    }

private:
    using Frame = std::vector<char>;
    /// One received SBE message.
    struct Message {
        char *bytes;
        std::size_t length;
    };

    static constexpr std::size_t FRAME_HEADER = 6;
    static constexpr std::size_t MESSAGE_HEADER = 8;
    static constexpr std::size_t HEADERS = FRAME_HEADER + MESSAGE_HEADER;
    static constexpr std::uint16_t ENCODING = 0xEB50;
    static constexpr std::size_t MAX_REQUEST = 1024;
    /// A book of both sides with all levels fits.
    static constexpr std::size_t MAX_FRAME = 2 << 20;
    static constexpr int HEARTBEAT_S = 5;
    /// The gateway is silent for three heartbeats: the connection is lost.
    static constexpr std::chrono::seconds TIMEOUT{3 * HEARTBEAT_S};
    static constexpr int RECONNECT_ATTEMPTS = 50;
    static constexpr int RECONNECT_PAUSE_US = 200'000;
    static constexpr std::int32_t WRONG_CREDENTIALS = 13004;

    // Sending.

    template <typename M> static M encode(Frame &frame) {
        frame.assign(MAX_REQUEST, 0);
        M message;
        message.wrapAndApplyHeader(frame.data(), FRAME_HEADER, frame.size());
        return message;
    }

    /// Completes the frame and sends it.
    static void send(TcpSocket &socket, Frame &frame, std::size_t length) {
        frame.resize(length);
        const std::uint32_t bigLength = htonl(static_cast<std::uint32_t>(length));
        const std::uint16_t encoding = htons(ENCODING);
        std::memcpy(frame.data(), &bigLength, sizeof bigLength);
        std::memcpy(frame.data() + 4, &encoding, sizeof encoding);
        socket.send(frame.data(), length);
    }

    template <typename M, typename Fill> std::uint64_t request(Fill fill) {
        const auto id = ++lastRequest_;
        auto &frame = unanswered_[id];
        auto message = encode<M>(frame);
        message.requestId(id);
        fill(message);
        frame.resize(HEADERS + M::sbeBlockLength());
        try {
            if (missedEnd_ == 0) {
                send(*socket_, frame, frame.size());
            }
        } catch (const ConnectionError &) {
            // poll() notices the cut, and sends the request again.
        }
        return id;
    }

    template <typename M, typename Fill> void sendControl(Fill fill) {
        Frame frame;
        auto message = encode<M>(frame);
        fill(message);
        send(*socket_, frame, HEADERS + M::sbeBlockLength());
    }

    /// Sends the requests again that have no answer, after the last missed message.
    void sendUnanswered() {
        if (missedEnd_ != 0 && next_ >= missedEnd_) {
            missedEnd_ = 0;
            for (auto &[id, frame] : unanswered_) {
                send(*socket_, frame, frame.size());
            }
        }
    }

    // Logon and reconnection.

    void connect() {
        start_ = end_ = 0;
        socket_.emplace(address_, TIMEOUT);
        sendControl<sbe::Logon>([&](sbe::Logon &logon) {
            logon.putClientId(clientId_).putSecret(secret_).nextSequence(next_).heartbeatS(HEARTBEAT_S);
        });
        const auto message = receive(*socket_);
        const auto header = readHeader(message);
        refuseMalformed(header, [&] { acceptLogon(message, header); });
    }

    void acceptLogon(const Message &message, const sbe::MessageHeader &header) {
        if (header.templateId() == sbe::Logout::sbeTemplateId()) {
            auto logout = decode<sbe::Logout>(message, header);
            const auto code = logout.code();
            const auto refusal = "the gateway refused the logon of " + clientId_ + " with " + std::to_string(code) +
                                 ": " + logout.getReasonAsString();
            if (code == WRONG_CREDENTIALS) {
                throw VenueError(refusal, "check the client id and its secret");
            }
            // For example, the gateway has not noticed the end of the old connection yet.
            throw ConnectionError(refusal);
        }
        if (header.templateId() != sbe::LogonAccepted::sbeTemplateId()) {
            throw malformed("template " + std::to_string(header.templateId()) + " as the answer to a logon");
        }
        auto accepted = decode<sbe::LogonAccepted>(message, header);
        if (epoch_ != 0 && epoch_ != accepted.epoch()) {
            throw VenueError("the venue has started again, so the message numbers have no meaning",
                             "query the orders, and log on anew");
        }
        if (epoch_ == 0) {
            epoch_ = accepted.epoch();
            next_ = accepted.nextSequence();
        } else {
            missedEnd_ = accepted.nextSequence();
        }
        skipTo(accepted.oldestSequence());
    }

    void reconnect(std::string cause) {
        early_.clear();
        for (int attempt = 0; attempt < RECONNECT_ATTEMPTS; attempt++) {
            try {
                connect();
                return;
            } catch (const ConnectionError &error) {
                cause = error.what();
            }
            usleep(RECONNECT_PAUSE_US);
        }
        throw unreachable(cause);
    }

    VenueError unreachable(const std::string &cause) const {
        return {"cannot log on at " + address_.text + ": " + cause,
                "start the venue with --sbe, and check the address"};
    }

    VenueError malformed(const std::string &what) const { return VenueError::malformed(address_.text, what); }

    // Receiving.

    /// Waits for the next frame. Its message is valid until the next call.
    Message receive(TcpSocket &socket) {
        require(socket, FRAME_HEADER);
        std::uint32_t length;
        std::uint16_t encoding;
        std::memcpy(&length, &received_[start_], sizeof length);
        std::memcpy(&encoding, &received_[start_ + 4], sizeof encoding);
        length = ntohl(length);
        encoding = ntohs(encoding);
        if (encoding != ENCODING) {
            char text[64];
            std::snprintf(text, sizeof text, "encoding type 0x%04X, expected 0x%04X", encoding, ENCODING);
            throw malformed(text);
        }
        if (length < HEADERS || length > MAX_FRAME) {
            throw malformed("a frame of " + std::to_string(length) + " bytes");
        }
        require(socket, length);
        const Message message{&received_[start_ + FRAME_HEADER], length - FRAME_HEADER};
        start_ += length;
        return message;
    }

    /// Reads from the socket until `count` bytes are there.
    void require(TcpSocket &socket, std::size_t count) {
        if (start_ + count > received_.size()) {
            std::memmove(received_.data(), &received_[start_], end_ - start_);
            end_ -= start_;
            start_ = 0;
            received_.resize(std::max(received_.size(), count));
        }
        while (end_ - start_ < count) {
            end_ += socket.receive(&received_[end_], received_.size() - end_);
        }
    }

    sbe::MessageHeader readHeader(const Message &message) const {
        sbe::MessageHeader header(message.bytes, 0, message.length, 0);
        if (header.schemaId() != sbe::MessageHeader::sbeSchemaId()) {
            throw malformed("schema id " + std::to_string(header.schemaId()) + ", expected " +
                            std::to_string(sbe::MessageHeader::sbeSchemaId()));
        }
        if (header.blockLength() > message.length - MESSAGE_HEADER) {
            throw malformed("a block of " + std::to_string(header.blockLength()) + " bytes in a message of " +
                            std::to_string(message.length));
        }
        return header;
    }

    /// Reads a message. Names its template if the codec refuses it.
    template <typename Read> void refuseMalformed(const sbe::MessageHeader &header, Read read) const {
        try {
            read();
        } catch (const ConnectionError &) {
            throw;
        } catch (const VenueError &) {
            throw;
        } catch (const std::runtime_error &) { // Of the codec.
            throw malformed("a message of template " + std::to_string(header.templateId()) +
                            " with a length or a value that is wrong");
        }
    }

    template <typename M> M decode(const Message &message, const sbe::MessageHeader &header) const {
        if (header.blockLength() < M::sbeBlockLength()) {
            throw malformed("a block of " + std::to_string(header.blockLength()) + " bytes in template " +
                            std::to_string(header.templateId()) + ", expected " +
                            std::to_string(M::sbeBlockLength()));
        }
        M decoded;
        decoded.wrapForDecode(message.bytes, MESSAGE_HEADER, header.blockLength(), header.version(), message.length);
        return decoded;
    }

    void dispatch(const Message &message) {
        const auto header = readHeader(message);
        refuseMalformed(header, [&] { dispatch(message, header); });
    }

    void dispatch(const Message &message, const sbe::MessageHeader &header) {
        switch (header.templateId()) {
        case sbe::Heartbeat::SBE_TEMPLATE_ID: {
            auto heartbeat = decode<sbe::Heartbeat>(message, header);
            if (heartbeat.nextSequence() > next_) {
                requestMissing(heartbeat.nextSequence() - 1);
            }
            // The gateway sends one in each interval, so the answers arrive in time.
            sendControl<sbe::Heartbeat>([&](sbe::Heartbeat &answer) { answer.nextSequence(0); });
            break;
        }
        case sbe::Logout::SBE_TEMPLATE_ID: {
            auto logout = decode<sbe::Logout>(message, header);
            const auto code = std::to_string(logout.code());
            throw ConnectionError("the gateway ended the session: " + code + " " + logout.getReasonAsString());
        }
        case sbe::RetransmitComplete::SBE_TEMPLATE_ID:
            // The gateway does not have what is still missing.
            skipTo(decode<sbe::RetransmitComplete>(message, header).toSequence() + 1);
            break;
        default:
            onNumbered(message, header);
        }
    }

    void onNumbered(const Message &message, const sbe::MessageHeader &header) {
        // Each numbered message begins with its number.
        const auto sequence = decode<sbe::ReportsLost>(message, header).sequence();
        if (sequence == next_) {
            deliver(message, header);
            deliverEarly();
        } else if (sequence > next_) {
            if (early_.empty()) {
                requestMissing(sequence - 1);
            }
            early_.emplace(sequence, Frame(message.bytes, message.bytes + message.length));
        }
    }

    void requestMissing(std::uint64_t last) {
        sendControl<sbe::RetransmitRequest>(
            [&](sbe::RetransmitRequest &request) { request.fromSequence(next_).toSequence(last); });
    }

    /// Goes on with message `number`, if the messages before it cannot be had.
    void skipTo(std::uint64_t number) {
        if (number > next_) {
            next_ = number;
            handler_.onLost();
            deliverEarly();
        }
    }

    void deliverEarly() {
        while (!early_.empty() && early_.begin()->first <= next_) {
            auto first = early_.extract(early_.begin());
            if (first.key() == next_) {
                const Message message{first.mapped().data(), first.mapped().size()};
                deliver(message, readHeader(message));
            }
        }
    }

    void deliver(const Message &message, const sbe::MessageHeader &header) {
        next_++;
        switch (header.templateId()) {
        case sbe::ExecutionReport::SBE_TEMPLATE_ID: return pass<sbe::ExecutionReport>(message, header);
        case sbe::ReportsLost::SBE_TEMPLATE_ID: return handler_.onLost();
        case sbe::OrderAccepted::SBE_TEMPLATE_ID: return answer<sbe::OrderAccepted>(message, header);
        case sbe::MassCancelAccepted::SBE_TEMPLATE_ID: return answer<sbe::MassCancelAccepted>(message, header);
        case sbe::Reject::SBE_TEMPLATE_ID: return answer<sbe::Reject>(message, header);
        case sbe::BestPrices::SBE_TEMPLATE_ID: return answer<sbe::BestPrices>(message, header);
        case sbe::Vwap::SBE_TEMPLATE_ID: return answer<sbe::Vwap>(message, header);
        case sbe::Book::SBE_TEMPLATE_ID: return answer<sbe::Book>(message, header);
        case sbe::InstrumentStatus::SBE_TEMPLATE_ID: return answer<sbe::InstrumentStatus>(message, header);
        }
    }

    template <typename M> void pass(const Message &message, const sbe::MessageHeader &header) {
        auto decoded = decode<M>(message, header);
        handler_.on(decoded);
    }

    template <typename M> void answer(const Message &message, const sbe::MessageHeader &header) {
        auto decoded = decode<M>(message, header);
        unanswered_.erase(decoded.requestId());
        handler_.on(decoded);
    }

    const Address address_;
    const std::string clientId_, secret_;
    MessageHandler &handler_;
    std::optional<TcpSocket> socket_;
    /// Identifies the numbering of the messages. It changes when the venue starts again.
    std::uint64_t epoch_ = 0;
    /// Number of the first message that this session does not have.
    std::uint64_t next_ = 0;
    /// Messages that came after a missing one, by number.
    std::map<std::uint64_t, Frame> early_;
    std::uint64_t lastRequest_ = 0;
    /// Frames of the requests without an answer, by request id.
    std::map<std::uint64_t, Frame> unanswered_;
    /// After a reconnection, the number after the last missed message. Until then no request is
    /// sent.
    std::uint64_t missedEnd_ = 0;
    /// The bytes from `start_` to `end_` are received and not yet read.
    Frame received_;
    std::size_t start_ = 0, end_ = 0;
};
