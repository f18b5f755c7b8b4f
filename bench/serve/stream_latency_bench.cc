// What the way from the engine to a client adds to a token's time, while many clients read slowly.
//
//   stream_latency_bench MODEL_FOLDER [SLOW [ACTIVE [STEP_MS [SECONDS]]]]
//
// The second half of SECONDS counts; by then the kernel's buffers of the slow streams should be
// full.
//
// SLOW + ACTIVE streams are open; each step hands one token to all of them. Active clients read all
// the time, slow ones a little every tenth of a second, from small buffers, so that the server has
// to keep what they leave. Added latency of a token of an active stream: from just before the
// engine hands it to its sink until recv() has returned the last byte of its event, on one clock.
// It has in it the rest of the step's sinks, the output parser, the network thread's queue, JSON,
// the kernel, and this client's own waking.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "serve/bench_server.h"
#include "serve/client_socket.h"

namespace tandem {
namespace {

struct Options {
  const char* folder = nullptr;
  int slow = 256;
  int active = 16;
  double step_ms = 25;
  double seconds = 60;
};

// Of one active stream: when each token had arrived. Chunks of the transfer encoding hold whole
// events.
struct ActiveStream {
  int socket = -1;
  std::vector<TimePoint> arrived = {};
  std::string tail = {};

  void read(const Clock& clock) {
    char buffer[16384];
    const auto bytes = ::recv(socket, buffer, sizeof buffer, 0);
    CHECK(bytes > 0, "the server closed an active stream");
    const TimePoint now = clock.now();
    tail.append(buffer, static_cast<std::size_t>(bytes));
    constexpr std::string_view kEnd = "\n\n\r\n";
    for (std::size_t end; (end = tail.find(kEnd)) != std::string::npos;) {
      // The first event has the role and no token.
      const std::string_view event = std::string_view(tail).substr(0, end);
      if (event.find("\"content\":\" ") != std::string_view::npos) arrived.push_back(now);
      tail.erase(0, end + kEnd.size());
    }
  }
};

std::string stream_request(int seed) {
  return chat_request(fmt::format(R"("stream":true,"max_tokens":1000000,"seed":{})", seed));
}

// Reads a little of a twentieth of the slow streams: each comes round ten times a second.
class SlowReaders {
 public:
  explicit SlowReaders(std::vector<int> sockets) : sockets_(std::move(sockets)) {}

  void turn() {
    const std::size_t count = std::max<std::size_t>(1, sockets_.size() / 20);
    char buffer[128];
    for (std::size_t i = 0; i < count && !sockets_.empty(); ++i) {
      next_ = (next_ + 1) % sockets_.size();
      ::recv(sockets_[next_], buffer, sizeof buffer, MSG_DONTWAIT);
    }
  }

 private:
  std::vector<int> sockets_;
  std::size_t next_ = 0;
};

std::vector<double> added_ms(const std::vector<ActiveStream>& streams,
                             const std::vector<std::vector<TimePoint>>& handed, TimePoint from) {
  std::vector<double> added;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    for (std::size_t token = 0; token < streams[i].arrived.size(); ++token) {
      if (handed[i][token] < from) continue;
      added.push_back(milliseconds(handed[i][token], streams[i].arrived[token]));
    }
  }
  std::sort(added.begin(), added.end());
  return added;
}

void bench(const Options& options) {
  std::vector<std::vector<TimePoint>> handed(
      static_cast<std::size_t>(options.slow + options.active));
  BenchServer server(
      options.folder,
      {.step = std::chrono::microseconds(static_cast<std::int64_t>(options.step_ms * 1000)),
       .handed = &handed});
  const SystemClock clock;
  std::vector<int> slow;
  for (int i = 0; i < options.slow; ++i) {
    slow.push_back(connect_to(server.port(), 2048));
    send_all(slow.back(), stream_request(options.active + i));
  }
  // Last: what a step hands over is in the order of the requests, so these come at its end.
  std::vector<ActiveStream> active;
  std::vector<pollfd> polled;
  for (int i = 0; i < options.active; ++i) {
    active.push_back({connect_to(server.port())});
    send_all(active.back().socket, stream_request(i));
    polled.push_back({active.back().socket, POLLIN, 0});
  }
  SlowReaders slow_readers(slow);
  const TimePoint start = clock.now();
  const auto after = [&](double s) {
    return start +
           std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(s));
  };
  const TimePoint measured = after(options.seconds / 2), end = after(options.seconds);
  TimePoint slow_turn = start;
  double network_s = 0, client_s = 0, all_s = 0;  // processor time of the half that counts
  bool warm = false;
  while (clock.now() < end) {
    if (!warm && clock.now() >= measured) {
      warm = true;
      network_s = server.network_cpu_s();
      client_s = cpu_s(RUSAGE_THREAD);
      all_s = cpu_s(RUSAGE_SELF);
    }
    ::poll(polled.data(), polled.size(), 5);
    for (std::size_t i = 0; i < active.size(); ++i) {
      if ((polled[i].revents & POLLIN) != 0) active[i].read(clock);
    }
    if (clock.now() < slow_turn) continue;
    slow_turn += std::chrono::milliseconds(5);
    slow_readers.turn();
  }
  network_s = server.network_cpu_s() - network_s;
  client_s = cpu_s(RUSAGE_THREAD) - client_s;
  all_s = cpu_s(RUSAGE_SELF) - all_s;
  for (const ActiveStream& stream : active) ::close(stream.socket);
  for (const int socket : slow) ::close(socket);
  server.stop();

  std::size_t tokens = 0;
  for (const auto& of_request : handed) {
    tokens += static_cast<std::size_t>(
        std::count_if(of_request.begin(), of_request.end(),
                      [&](TimePoint at) { return at >= measured && at < end; }));
  }
  const double each = 1e6 / static_cast<double>(tokens);
  const std::vector<double> added = added_ms(active, handed, measured);
  CHECK(!added.empty(), "no token arrived");
  const auto share = [&](double s) {
    return added[static_cast<std::size_t>(s * static_cast<double>(added.size() - 1))];
  };
  fmt::print(
      "{} slow and {} active streams, a step every {:g} ms: {} tokens, added latency p50 {:.2f} "
      "ms, "
      "p90 {:.2f}, p99 {:.2f}, max {:.2f}; processor time of a token {:.1f} us, of it the network "
      "thread {:.1f} us, the client {:.1f} us\n",
      options.slow, options.active, options.step_ms, added.size(), share(0.5), share(0.9),
      share(0.99), added.back(), all_s * each, network_s * each, client_s * each);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: stream_latency_bench MODEL_FOLDER [SLOW [ACTIVE [STEP_MS [SECONDS]]]]\n");
    return 2;
  }
  tandem::Options options{.folder = argv[1]};
  if (argc > 2) options.slow = std::atoi(argv[2]);
  if (argc > 3) options.active = std::atoi(argv[3]);
  if (argc > 4) options.step_ms = std::atof(argv[4]);
  if (argc > 5) options.seconds = std::atof(argv[5]);
  tandem::bench(options);
}
