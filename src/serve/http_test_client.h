// For tests: HTTP over a plain socket, so that every byte and its time are the test's choice.
#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// A blocking connection to 127.0.0.1. A read gives up after a minute.
class Client {
 public:
  explicit Client(int port, int receive_buffer_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    timeval limit{.tv_sec = 60, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False once the server has closed the connection.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void close_sending_side() { ::shutdown(socket_, SHUT_WR); }
  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  // Reads until `mark` has been received; everything up to its end. Without it, all there was.
  std::string read_to(std::string_view mark) {
    while (received_.find(mark) == std::string::npos) {
      if (!read_more()) return std::exchange(received_, {});
    }
    const std::size_t end = received_.find(mark) + mark.size();
    std::string text = received_.substr(0, end);
    received_.erase(0, end);
    return text;
  }
  std::string read_to_end() {
    while (read_more()) {
    }
    return std::exchange(received_, {});
  }

 private:
  bool read_more() {
    char buffer[4096];
    const auto bytes = ::recv(socket_, buffer, sizeof buffer, 0);
    if (bytes <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(bytes));
    return true;
  }

  int socket_;
  std::string received_;
};

inline std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}
inline std::string post(const std::string& body) {
  return fmt::format("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", body.size(),
                     body);
}

}  // namespace tandem
