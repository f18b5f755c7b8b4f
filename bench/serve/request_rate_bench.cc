// How many short chat requests a second the HTTP path alone answers: real sockets, parsing,
// rendering, tokenising and answering, over an engine that has its one token at once.
//
//   request_rate_bench MODEL_FOLDER [CONNECTIONS [SECONDS]]
#include <poll.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "serve/bench_server.h"
#include "serve/client_socket.h"

namespace tandem {
namespace {

// One connection: sends, reads the whole answer, sends again.
struct Client {
  int socket = -1;
  std::string received = {};

  // True when an answer is complete. CHECKs that it is one.
  bool read() {
    char buffer[8192];
    const auto bytes = ::recv(socket, buffer, sizeof buffer, 0);
    CHECK(bytes > 0, "the server closed a connection");
    received.append(buffer, static_cast<std::size_t>(bytes));
    const std::size_t head = received.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    CHECK(received.starts_with("HTTP/1.1 200"), "{}", received);
    constexpr std::string_view kLength = "Content-Length: ";
    const std::size_t at = received.find(kLength) + kLength.size();
    std::size_t length = 0;
    std::from_chars(received.data() + at, received.data() + head, length);
    if (received.size() < head + 4 + length) return false;
    CHECK(received.find("\"finish_reason\":\"length\"") != std::string::npos, "{}", received);
    received.clear();
    return true;
  }
};

void bench(const char* folder, int connections, double seconds) {
  BenchServer server(folder, {});
  const std::string request = chat_request(R"("max_tokens":1)");
  std::vector<Client> clients;
  std::vector<pollfd> polled;
  for (int i = 0; i < connections; ++i) {
    clients.push_back({connect_to(server.port())});
    polled.push_back({clients.back().socket, POLLIN, 0});
    send_all(clients.back().socket, request);
  }
  const SystemClock clock;
  TimePoint start = clock.now();
  std::int64_t answered = 0;
  double all_cpu_s = 0, client_cpu_s = 0, network_cpu_s = 0;
  bool warm = false;
  for (;;) {
    const double elapsed_s = milliseconds(start, clock.now()) / 1000;
    if (!warm && elapsed_s > seconds / 5) {
      warm = true;
      start = clock.now();
      answered = 0;
      all_cpu_s = cpu_s(RUSAGE_SELF);
      client_cpu_s = cpu_s(RUSAGE_THREAD);
      network_cpu_s = server.network_cpu_s();
    } else if (warm && elapsed_s > seconds) {
      break;
    }
    ::poll(polled.data(), polled.size(), 100);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if ((polled[i].revents & POLLIN) == 0 || !clients[i].read()) continue;
      ++answered;
      send_all(clients[i].socket, request);
    }
  }
  const double elapsed_s = milliseconds(start, clock.now()) / 1000;
  const double each = 1e6 / static_cast<double>(answered);
  all_cpu_s = cpu_s(RUSAGE_SELF) - all_cpu_s;
  client_cpu_s = cpu_s(RUSAGE_THREAD) - client_cpu_s;
  network_cpu_s = server.network_cpu_s() - network_cpu_s;
  fmt::print(
      "{} connections: {:.0f} requests/s over {:.1f} s, {:.2f} processors used; processor time of "
      "a "
      "request {:.0f} us, of it the network thread {:.0f} us, the client {:.0f} us\n",
      connections, static_cast<double>(answered) / elapsed_s, elapsed_s, all_cpu_s / elapsed_s,
      all_cpu_s * each, network_cpu_s * each, client_cpu_s * each);
  for (const Client& client : clients) ::close(client.socket);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: request_rate_bench MODEL_FOLDER [CONNECTIONS [SECONDS]]\n");
    return 2;
  }
  tandem::bench(argv[1], argc > 2 ? std::atoi(argv[2]) : 64, argc > 3 ? std::atof(argv[3]) : 10);
}
