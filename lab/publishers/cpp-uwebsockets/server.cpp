// uWebSockets: one loop. In the test fan-out all clients subscribe to one topic. A thread generates
// the messages and hands them to the loop with `defer`, because the timers of the loop count in ms.

#include "App.h"

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr long long kSecondNs = 1'000'000'000LL;

struct NoData {};

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

long number(const char* name) {
  const std::string value = text(name);
  char* end = nullptr;
  const long found = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0') {
    std::fprintf(stderr, "invalid %s \"%s\": expected a whole number\n", name, value.c_str());
    std::exit(2);
  }
  return found;
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

void generate(uWS::App* app, uWS::Loop* loop, double rate, size_t bytes) {
  const long long start = now_ns(CLOCK_MONOTONIC), offset = now_ns(CLOCK_REALTIME) - start;
  for (unsigned long long n = 1;; ++n) {
    const long long due = start + static_cast<long long>(static_cast<double>(n) * kSecondNs / rate);
    timespec until{due / kSecondNs, due % kSecondNs};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
    loop->defer([app, text = message(n, due + offset, bytes)] { app->publish("all", text, uWS::OpCode::TEXT); });
  }
}

void write_ready_file(const std::string& host, int port) {
  const std::string path = text("LAB_READY_FILE"), unfinished = path + ".unfinished";
  std::ofstream(unfinished) << "{\"http\":\"" << host << ":" << port << "\"}";
  std::rename(unfinished.c_str(), path.c_str());
}

}  // namespace

int main() {
  const std::string test = text("LAB_TEST"), host = text("LAB_HOST");
  if (test != "echo" && test != "heartbeat" && test != "fan-out") {
    std::fprintf(stderr, "invalid LAB_TEST \"%s\": expected echo, heartbeat or fan-out\n", test.c_str());
    return 2;
  }
  const bool is_echo = test == "echo";
  const long messages = test == "heartbeat" ? number("LAB_MESSAGES") : 0;
  const std::string reply(number("LAB_BYTES"), 'x');
  uWS::App app;
  app.ws<NoData>("/*", {
      .compression = uWS::DISABLED,
      .maxPayloadLength = 1024 * 1024,
      .idleTimeout = 0,
      // The default limit of 64 KiB would drop a part of the answers to one heartbeat.
      .maxBackpressure = 1024 * 1024,
      .upgrade = nullptr,
      .open = [](auto* ws) { ws->subscribe("all"); },
      .message =
          [&](auto* ws, std::string_view text, uWS::OpCode code) {
            if (is_echo) ws->send(text, code);
            for (long i = 0; i < messages; ++i) ws->send(reply, uWS::OpCode::TEXT);
          },
  });
  app.listen(host, static_cast<int>(number("LAB_PORT")), [&](us_listen_socket_t* listener) {
    if (!listener) {
      std::fprintf(stderr, "cannot listen on %s\n", host.c_str());
      std::exit(1);
    }
    write_ready_file(host, us_socket_local_port(0, reinterpret_cast<us_socket_t*>(listener)));
  });
  if (test == "fan-out") {
    std::thread(generate, &app, uWS::Loop::get(), number("LAB_RATE"), number("LAB_BYTES")).detach();
  }
  app.run();
}
