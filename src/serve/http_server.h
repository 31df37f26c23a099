// HTTP/1.1 on the wire, by Boost.Beast: one thread reads requests of all connections, hands them to a handler and
// writes what that answers.
//
//   HttpServer server(options, handler, error);   // listens; Error: the port is in use, …
//   server.Run([&] { return StopSignal() != 0; });
//
// Limits. A request's header has at most 16 KiB, its body `payload_limit`, both have to come within `request_timeout`,
// and bodies of all connections together take at most `body_budget` bytes. A request that breaks one of them is
// answered (431, 413, 408, 429), what still comes of it is read and thrown away within bounds, so that its client can
// read the answer, and the connection is closed. So it is after whatever is no HTTP, and after the shapes that two
// readers may take for different requests: Content-Length beside Transfer-Encoding, or twice.
//
// A connection without a request is closed after a minute. A client that closes its own while it waits for an answer
// sets HttpRequest::gone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http.h"

namespace lshformer {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  int64_t payload_limit = 2'000'000;
  int64_t body_budget = int64_t{256} << 20;
  double request_timeout = 30, stop_timeout = 30;  // seconds
};

class HttpServer {
 public:
  using WireError = std::function<HttpResponse(int status, const std::string& message)>;
  // Error where the address cannot be had.
  HttpServer(const HttpServerOptions& options, HttpHandler handler, WireError error);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  int64_t connections() const;
  // Until `stops` holds, which is asked several times a second. Then no connection is accepted any more, those without
  // a request are closed at once, `stopping` is called, and those that wait for an answer get it, within stop_timeout:
  // false where some did not.
  bool Run(const std::function<bool()>& stops, const std::function<void()>& stopping);

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace lshformer
