// A connector of the latency laboratory with Boost.Beast.
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include "connector.hpp"

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using Tcp = asio::ip::tcp::socket;
using Tls = beast::ssl_stream<Tcp>;

namespace {
// A connection on `Layer`: TCP or TLS.
template <typename Layer>
class BeastConnection : public Connection {
public:
    template <typename... Arguments>
    explicit BeastConnection(const Url& url, Arguments&&... arguments)
        : socket_(context_, std::forward<Arguments>(arguments)...) {
        asio::ip::tcp::resolver resolver(context_);
        Tcp& tcp = beast::get_lowest_layer(socket_);
        asio::connect(tcp, resolver.resolve(url.host, url.port));
        tcp.set_option(asio::ip::tcp::no_delay(true));
        if constexpr (std::is_same_v<Layer, Tls>) {
            Tls& tls = socket_.next_layer();
            tls.set_verify_callback(asio::ssl::host_name_verification(url.host));
            SSL_set_tlsext_host_name(tls.native_handle(), url.host.c_str());
            tls.handshake(asio::ssl::stream_base::client);
        }
        socket_.read_message_max(message_most);
        if (setting("LAB_COMPRESS") == "1") {
            websocket::permessage_deflate deflate;
            deflate.client_enable = true;
            socket_.set_option(deflate);
        }
        socket_.handshake(url.authority, url.target);
        if (const std::string text = setting("LAB_SUBSCRIBE"); !text.empty()) socket_.write(asio::buffer(text));
    }

    Ended receive(Take& take) override {
        beast::flat_buffer buffer;
        beast::error_code error;
        while (!error && !take.is_stopped()) {
            socket_.async_read(buffer, [&](beast::error_code result, std::size_t) {
                error = result;
                if (error) return;
                take.message({static_cast<const char*>(buffer.data().data()), buffer.size()}, socket_.got_binary());
                buffer.consume(buffer.size());
            });
            context_.restart();
            while (context_.run_for(std::chrono::milliseconds(look_ms)) == 0 || !context_.stopped()) {
                if (take.is_stopped()) {
                    beast::get_lowest_layer(socket_).cancel();
                    context_.run();
                }
            }
        }
        return judge(error);
    }

private:
    Ended judge(const beast::error_code& error) const {
        // After its close frame a server may end TCP without ending TLS first.
        const bool is_cut = error == asio::ssl::error::stream_truncated && socket_.reason();
        if (error == websocket::error::closed || is_cut)
            return {Ended::Why::Close, socket_.reason().code, "close frame"};
        // Beast has already sent the close frame that answers a violation.
        const bool is_violation = error == websocket::condition::protocol_violation ||
                                  error == websocket::error::message_too_big ||
                                  error == websocket::error::buffer_overflow;
        return {is_violation ? Ended::Why::Protocol : Ended::Why::Lost, 0, error.message()};
    }

    asio::io_context context_{1};
    websocket::stream<Layer> socket_;
};

class Beast : public Library {
public:
    std::string name() const override { return "Boost.Beast"; }
    std::string version() const override { return "1.81"; }

    std::unique_ptr<Connection> open(const Url& url) override {
        if (!url.is_secure) return std::make_unique<BeastConnection<Tcp>>(url);
        if (!trust_) {
            trust_.emplace(asio::ssl::context::tls_client);
            trust_->set_verify_mode(asio::ssl::verify_peer);
            if (const std::string file = setting("LAB_CA"); !file.empty()) trust_->load_verify_file(file);
            else trust_->set_default_verify_paths();
        }
        return std::make_unique<BeastConnection<Tls>>(url, *trust_);
    }

private:
    std::optional<asio::ssl::context> trust_;
};
}  // namespace

int main() {
    Beast library;
    return run(library);
}
