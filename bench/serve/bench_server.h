// The real server, its routes and the bundled model's text side, over the fake engine.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <thread>

#include "base/clock.h"
#include "engine/served_model.h"
#include "serve/fake_engine.h"
#include "serve/server.h"

namespace tandem {

// Processor time of all threads, or of the calling one (RUSAGE_SELF, RUSAGE_THREAD), in seconds.
inline double cpu_s(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Drains when it dies. The plan's token is chosen here: one that shows a piece of text.
class BenchServer {
 public:
  BenchServer(const std::filesystem::path& folder, FakeEnginePlan plan) {
    model_ = load_served_model({.folder = folder, .loading = {}, .engine = {}}, clock_).value();
    plan.token = model_->tokenizer->encode_plain(" and").at(0);
    set_fake_engine_plan(plan);
    server_ = Server::start(*model_, {.port = 0, .limits = {.max_connections = 4096}}).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~BenchServer() { stop(); }
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;

  int port() const { return server_->port(); }
  // Processor time of the network thread, in seconds. Before stop().
  double network_cpu_s() {
    clockid_t clock{};
    timespec time{};
    pthread_getcpuclockid(thread_.native_handle(), &clock);
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  // Every request has ended once it returns.
  void stop() {
    server_->drain();
    if (thread_.joinable()) thread_.join();
    model_->engine->wait_idle();
  }

 private:
  const SystemClock clock_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace tandem
