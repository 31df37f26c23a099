// A client of its own for tests of the server: bytes over a socket, answers taken apart.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/lower_case.h"

namespace lshformer::testing {

struct Reply {
  int status = 0;  // 0: the connection ended without one
  std::string head, body;
  // A header's value; "" where there is none.
  std::string Header(const std::string& name) const {
    const std::string lower = LowerCase(head), key = "\r\n" + name + ": ";
    const size_t at = lower.find(key);
    if (at == std::string::npos) return "";
    const size_t begin = at + key.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class Client {
 public:
  explicit Client(int port) : file_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const timeval minute{60, 0};  // a test that hangs fails
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
    if (connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Close() {
    if (file_ >= 0) close(std::exchange(file_, -1));
  }
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // The next answer on the connection. `head`: it has no body, whatever its length says.
  Reply Receive(bool head = false) {
    Reply reply;
    size_t end = 0;
    while ((end = held_.find("\r\n\r\n")) == std::string::npos)
      if (!More()) return reply;
    reply.head = held_.substr(0, end + 2);
    held_.erase(0, end + 4);
    reply.status = std::atoi(reply.head.substr(reply.head.find(' ') + 1).c_str());
    if (reply.status == 100) return Receive(head);
    const std::string length = reply.Header("content-length");
    const size_t bytes = head || length.empty() ? 0 : std::strtoull(length.c_str(), nullptr, 10);
    while (held_.size() < bytes)
      if (!More()) break;
    reply.body = held_.substr(0, bytes);
    held_.erase(0, bytes);
    return reply;
  }
  // Whether the server has closed the connection, or does within a minute.
  bool IsClosed() {
    while (More()) {
    }
    return true;
  }
  Reply Get(const std::string& path, const std::string& headers = "") {
    Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n");
    return Receive();
  }
  Reply Post(const std::string& path, const std::string& body, const std::string& headers = "") {
    Send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
    return Receive();
  }

 private:
  bool More() {
    char some[65536];
    const ssize_t got = recv(file_, some, sizeof(some), 0);
    if (got > 0) held_.append(some, static_cast<size_t>(got));
    return got > 0;
  }

  int file_;
  std::string held_;
};

}  // namespace lshformer::testing
