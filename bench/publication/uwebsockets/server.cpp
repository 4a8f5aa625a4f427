// uWebSockets: one loop, everybody subscribed to one topic. Messages come from a pacing thread by `defer`, so that they
// are sent when they are due and not at the next tick of a timer of milliseconds.

#include "App.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr long long kSecondNs = 1'000'000'000LL;

struct Options {
  std::string host = "127.0.0.1", ready_file;
  int port = 0, answers = 0;
  size_t answer_bytes = 0, bytes = 190;
  double rate = 0;
};

struct Nothing {};

[[noreturn]] void usage(const char* what) {
  std::fprintf(stderr, "%s: --listen ADDR:PORT --ready-file PATH (--respond KxBYTES | --synthetic RATE --bytes N)\n", what);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--listen") {
      const auto colon = value.rfind(':');
      if (colon == std::string::npos) usage("--listen");
      options.host = value.substr(0, colon);
      options.port = std::atoi(value.c_str() + colon + 1);
    } else if (name == "--ready-file") {
      options.ready_file = value;
    } else if (name == "--synthetic") {
      options.rate = std::atof(value.c_str());
    } else if (name == "--bytes") {
      options.bytes = std::strtoul(value.c_str(), nullptr, 10);
    } else if (name == "--respond") {
      const auto x = value.find('x');
      if (x == std::string::npos) usage("--respond");
      options.answers = std::atoi(value.c_str());
      options.answer_bytes = std::strtoul(value.c_str() + x + 1, nullptr, 10);
    } else {
      usage(argv[i]);
    }
  }
  return options;
}

long long now_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kSecondNs + t.tv_nsec;
}

std::string message(unsigned long long sequence, long long due_ns, size_t bytes) {
  std::string text = "{\"seq\":" + std::to_string(sequence) + ",\"ts_ns\":" + std::to_string(due_ns) + ",\"pad\":\"";
  if (text.size() + 2 < bytes) text.append(bytes - text.size() - 2, 'x');
  return text + "\"}";
}

void pace(uWS::App* app, uWS::Loop* loop, const Options& options) {
  const long long start = now_ns(CLOCK_MONOTONIC), offset = now_ns(CLOCK_REALTIME) - start;
  for (unsigned long long n = 1;; ++n) {
    const long long due = start + static_cast<long long>(static_cast<double>(n) * kSecondNs / options.rate);
    timespec until{due / kSecondNs, due % kSecondNs};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
    loop->defer([app, text = message(n, due + offset, options.bytes)] { app->publish("all", text, uWS::OpCode::TEXT); });
  }
}

void say_ready(const std::string& path, const std::string& host, int port) {
  if (path.empty()) return;
  const std::string unfinished = path + ".unfinished";
  std::ofstream(unfinished) << "{\"http\":\"" << host << ":" << port << "\",\"pid\":" << getpid() << "}";
  std::rename(unfinished.c_str(), path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::string answer(options.answer_bytes, 'x');
  uWS::App app;
  app.ws<Nothing>("/*", {
      .compression = uWS::DISABLED,
      .maxPayloadLength = 32 * 1024,
      .idleTimeout = 120,
      // An answer of 100 kB must not be dropped half.
      .maxBackpressure = 1024 * 1024,
      .upgrade = nullptr,
      .open = [](auto* ws) { ws->subscribe("all"); },
      .message =
          [&](auto* ws, std::string_view, uWS::OpCode) {
            for (int i = 0; i < options.answers; ++i) ws->send(answer, uWS::OpCode::TEXT);
          },
  });
  app.listen(options.host, options.port, [&](us_listen_socket_t* listener) {
    if (!listener) {
      std::fprintf(stderr, "cannot listen on %s:%d\n", options.host.c_str(), options.port);
      std::exit(1);
    }
    const int socket = us_poll_fd(reinterpret_cast<us_poll_t*>(listener));
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    ::listen(socket, 4096);
    say_ready(options.ready_file, options.host, us_socket_local_port(0, reinterpret_cast<us_socket_t*>(listener)));
  });
  if (options.rate > 0) std::thread(pace, &app, uWS::Loop::get(), options).detach();
  app.run();
}
