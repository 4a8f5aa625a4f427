// A connector of the latency laboratory with WebSocket++, on Asio.
#include <websocketpp/client.hpp>
#include <websocketpp/config/asio_client.hpp>
#include <websocketpp/extensions/permessage_deflate/enabled.hpp>

#include "connector.hpp"

namespace asio = boost::asio;
namespace ssl = asio::ssl;

namespace {
using websocketpp::config::asio_client;
using websocketpp::config::asio_tls_client;

template <typename Config>
struct Compressed : Config {
    using type = Compressed;
    using permessage_deflate_type =
        websocketpp::extensions::permessage_deflate::enabled<typename Config::permessage_deflate_config>;
};

template <typename Config>
class PlusConnection : public Connection {
    using Client = websocketpp::client<Config>;

public:
    explicit PlusConnection(const Url& url) : url_(url) {
        client_.clear_access_channels(websocketpp::log::alevel::all);
        client_.clear_error_channels(websocketpp::log::elevel::all);
        client_.init_asio();
        client_.set_max_message_size(message_most);
        client_.set_tcp_post_init_handler([this](auto handle) {
            client_.get_con_from_hdl(handle)->get_raw_socket().set_option(asio::ip::tcp::no_delay(true));
        });
        client_.set_open_handler([this](auto) { is_open_ = true; });
        client_.set_fail_handler([this](auto) { is_over_ = true; });
        client_.set_close_handler([this](auto) { is_over_ = true; });
        client_.set_message_handler([this](auto, auto message) {
            const bool is_binary = message->get_opcode() == websocketpp::frame::opcode::binary;
            // The first message may come in the same read as the handshake.
            if (take_) take_->message(message->get_payload(), is_binary);
            else early_.emplace_back(message->get_payload(), is_binary);
        });
        if constexpr (std::is_base_of_v<asio_tls_client, Config>)
            client_.set_tls_init_handler([this](auto) { return trust(); });
        websocketpp::lib::error_code error;
        socket_ = client_.get_connection(setting("LAB_URL"), error);
        if (error) throw std::runtime_error(error.message());
        // After a close frame the library waits for the server to end the connection.
        socket_->set_close_handshake_timeout(100);
        client_.connect(socket_);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (!is_open_ && !is_over_ && std::chrono::steady_clock::now() < until) step();
        if (!is_open_) throw std::runtime_error(socket_->get_ec().message());
        if (const std::string text = setting("LAB_SUBSCRIBE"); !text.empty())
            socket_->send(text, websocketpp::frame::opcode::text);
    }

    Ended receive(Take& take) override {
        take_ = &take;
        for (const auto& [payload, is_binary] : early_) take.message(payload, is_binary);
        while (!is_over_ && !take.is_stopped()) step();
        if (take.is_stopped()) return {Ended::Why::Stopped, 0, ""};
        const auto local = socket_->get_local_close_code(), remote = socket_->get_remote_close_code();
        namespace status = websocketpp::close::status;
        if (local == status::protocol_error || local == status::invalid_payload || local == status::message_too_big)
            return {Ended::Why::Protocol, 0, socket_->get_local_close_reason()};
        if (remote != status::abnormal_close && remote != status::blank)
            return {Ended::Why::Close, remote, socket_->get_remote_close_reason()};
        return {Ended::Why::Lost, 0, socket_->get_ec().message()};
    }

private:
    void step() { client_.get_io_service().run_one_for(std::chrono::milliseconds(look_ms)); }

    std::shared_ptr<ssl::context> trust() const {
        auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
        context->set_verify_mode(ssl::verify_peer);
        context->set_verify_callback(ssl::host_name_verification(url_.host));
        if (const std::string file = setting("LAB_CA"); !file.empty()) context->load_verify_file(file);
        else context->set_default_verify_paths();
        return context;
    }

    const Url url_;
    Client client_;
    typename Client::connection_ptr socket_;
    bool is_open_ = false, is_over_ = false;
    Take* take_ = nullptr;
    std::vector<std::pair<std::string, bool>> early_;
};

class Plus : public Library {
public:
    std::string name() const override { return "WebSocket++"; }
    std::string version() const override { return "0.8.2"; }

    std::unique_ptr<Connection> open(const Url& url) override {
        const bool compresses = setting("LAB_COMPRESS") == "1";
        if (url.is_secure && compresses) return std::make_unique<PlusConnection<Compressed<asio_tls_client>>>(url);
        if (url.is_secure) return std::make_unique<PlusConnection<asio_tls_client>>(url);
        if (compresses) return std::make_unique<PlusConnection<Compressed<asio_client>>>(url);
        return std::make_unique<PlusConnection<asio_client>>(url);
    }
};
}  // namespace

int main() {
    Plus library;
    return run(library);
}
