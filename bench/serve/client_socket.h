// What both benchmarks' clients need of sockets: as little as possible, since they share the
// machine with the server.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/check.h"

namespace tandem {

// A connection to 127.0.0.1. `receive_bytes`: of the kernel's buffer; 0: as it likes.
inline int connect_to(int port, int receive_bytes = 0) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_bytes > 0) {
    setsockopt(client, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  const int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
        "no connection to port {}", port);
  return client;
}

inline void send_all(int client, std::string_view text) {
  while (!text.empty()) {
    const auto sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
    CHECK(sent > 0, "the server closed a connection");
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// A chat request of one short question.
inline std::string chat_request(const std::string& more_fields) {
  const std::string body = R"({"messages":[{"role":"user","content":"What is 17 + 25?"}],)"
                           R"("reasoning_effort":"none",)" +
                           more_fields + "}";
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

}  // namespace tandem
