// A connector of the latency laboratory with libwebsockets, a library in C.
#include <libwebsockets.h>

#include <cstring>
#include <vector>

#include "connector.hpp"

namespace {
class LwsConnection : public Connection {
public:
    explicit LwsConnection(const Url& url) : subscription_(setting("LAB_SUBSCRIBE")) {
        lws_set_log_level(0, nullptr);
        lws_context_creation_info info{};
        const std::string ca = setting("LAB_CA");
        info.port = CONTEXT_PORT_NO_LISTEN;
        info.protocols = protocols;
        info.options = LWS_SERVER_OPTION_VALIDATE_UTF8 | (url.is_secure ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0);
        if (url.is_secure && !ca.empty()) {
            info.client_ssl_ca_filepath = ca.c_str();
            info.options |= LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS;
        }
        context_.reset(lws_create_context(&info));
        if (!context_) throw std::runtime_error("libwebsockets has no context");
        lws_client_connect_info connect{};
        connect.context = context_.get();
        connect.address = url.host.c_str();
        connect.port = std::stoi(url.port);
        connect.path = url.target.c_str();
        connect.host = url.authority.c_str();
        connect.ssl_connection = url.is_secure ? LCCSCF_USE_SSL : 0;
        connect.local_protocol_name = protocols[0].name;
        connect.userdata = this;
        if (!lws_client_connect_via_info(&connect)) throw std::runtime_error(failure_);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (!is_open_ && !is_over_ && std::chrono::steady_clock::now() < until) step();
        if (!is_open_) throw std::runtime_error(failure_);
    }

    Ended receive(Take& take) override {
        take_ = &take;
        for (const auto& [payload, is_binary] : early_) take.message(payload, is_binary);
        while (!is_over_ && !take.is_stopped()) step();
        if (take.is_stopped()) return {Ended::Why::Stopped, 0, ""};
        if (close_code_) return {Ended::Why::Close, close_code_, "close frame"};
        return {is_violated_ ? Ended::Why::Protocol : Ended::Why::Lost, 0, failure_};
    }

private:
    static int callback(lws* socket, lws_callback_reasons reason, void* user, void* in, size_t length) {
        return user ? static_cast<LwsConnection*>(user)->note(socket, reason, static_cast<const char*>(in), length) : 0;
    }

    int note(lws* socket, lws_callback_reasons reason, const char* in, size_t length) {
        switch (reason) {
        case LWS_CALLBACK_CLIENT_ESTABLISHED:
            is_open_ = true;
            if (!subscription_.empty()) lws_callback_on_writable(socket);
            break;
        case LWS_CALLBACK_CLIENT_WRITEABLE: return subscribe(socket);
        case LWS_CALLBACK_CLIENT_RECEIVE: return piece(socket, in, length);
        case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
            close_code_ = length >= 2 ? (in[0] & 0xff) << 8 | (in[1] & 0xff) : 1005;
            break;
        case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
            failure_ = in ? std::string(in, length) : "connection failed";
            is_over_ = true;
            break;
        case LWS_CALLBACK_CLIENT_CLOSED:
            // The library closes by itself, with its own code, only after a violation.
            is_violated_ = lws_get_close_length(socket) >= 2 && close_code_ == 0;
            is_over_ = true;
            break;
        default: break;
        }
        return 0;
    }

    // A large message comes in pieces. The last piece completes it.
    int piece(lws* socket, const char* in, size_t length) {
        const bool is_binary = lws_frame_is_binary(socket);
        const bool is_last = lws_is_final_fragment(socket) && lws_remaining_packet_payload(socket) == 0;
        if (is_last && message_.empty()) {
            take({in, length}, is_binary);
            return 0;
        }
        message_.append(in, length);
        if (message_.size() > message_most) {
            failure_ = "a message is longer than 16 MiB";
            lws_close_reason(socket, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, nullptr, 0);
            return -1;
        }
        if (is_last) {
            take(message_, is_binary);
            message_.clear();
        }
        return 0;
    }

    void take(std::string_view payload, bool is_binary) {
        // The first message may come in the same read as the handshake.
        if (take_) take_->message(payload, is_binary);
        else early_.emplace_back(payload, is_binary);
    }

    int subscribe(lws* socket) {
        if (subscription_.empty()) return 0;
        std::vector<unsigned char> buffer(LWS_PRE + subscription_.size());
        std::memcpy(buffer.data() + LWS_PRE, subscription_.data(), subscription_.size());
        const int sent = lws_write(socket, buffer.data() + LWS_PRE, subscription_.size(), LWS_WRITE_TEXT);
        const bool is_sent = sent >= static_cast<int>(subscription_.size());
        subscription_.clear();
        return is_sent ? 0 : -1;
    }

    // Without events the call would wait for longer than the stop flag may.
    void step() {
        lws_sul_schedule(context_.get(), 0, &wake_, [](lws_sorted_usec_list*) {}, look_ms * LWS_US_PER_MS);
        lws_service(context_.get(), 0);
    }

    static constexpr lws_protocols protocols[] = {{"lab", callback, 0, 65536}, {nullptr, nullptr, 0, 0}};
    struct Destroy {
        void operator()(lws_context* context) const { lws_context_destroy(context); }
    };

    std::string subscription_, message_, failure_ = "end of stream";
    bool is_open_ = false, is_over_ = false, is_violated_ = false;
    int close_code_ = 0;
    Take* take_ = nullptr;
    std::vector<std::pair<std::string, bool>> early_;
    lws_sorted_usec_list_t wake_{};
    std::unique_ptr<lws_context, Destroy> context_;
};

class Lws : public Library {
public:
    std::string name() const override { return "libwebsockets"; }
    std::string version() const override { return "4.1.6"; }
    std::unique_ptr<Connection> open(const Url& url) override { return std::make_unique<LwsConnection>(url); }
};
}  // namespace

int main() {
    Lws library;
    return run(library);
}
