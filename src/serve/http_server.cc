// Fences between handlers are for contexts that several threads run; one does here, and ThreadSanitizer knows none.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;
constexpr auto kTuple = net::as_tuple(net::use_awaitable);

constexpr uint32_t kHeaderBytes = 16 << 10;
constexpr size_t kBufferBytes = kHeaderBytes + (64 << 10);
constexpr auto kIdle = std::chrono::seconds(60);
constexpr int64_t kDrainBytes = int64_t{4} << 20;  // of a request that was refused
constexpr auto kDrain = std::chrono::seconds(2);
constexpr auto kLookForClient = std::chrono::milliseconds(200);
constexpr int64_t kMostConnections = 8192;

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Where the answer to one request arrives.
struct Slot {
  explicit Slot(net::io_context& io) : timer(io) {}
  net::steady_timer timer;
  std::optional<HttpResponse> response;
};

struct Connection {
  enum class State { kIdle, kReading, kWaiting, kWriting };
  explicit Connection(tcp::socket accepted) : socket(std::move(accepted)), deadline(socket.get_executor()) {}
  tcp::socket socket;
  net::steady_timer deadline;
  boost::beast::flat_buffer buffer{kBufferBytes};
  State state = State::kIdle;
  bool late = false;  // the deadline has passed
  int64_t body = 0;   // bytes that count towards the budget
  std::shared_ptr<Slot> slot;
};

// What is wrong with the wire: a status, and why.
struct WireFault {
  int status = 0;  // 0: the connection is over, there is nobody to tell
  std::string message = {};
};

WireFault FaultOf(const error_code& error, bool late, int64_t payload_limit) {
  if (late) return {408, "the request did not come in time"};
  if (error == http::error::body_limit)
    return {413, fmt::format("the body is larger than {} bytes (payload_limit)", payload_limit)};
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return {431, fmt::format("the header is larger than {} bytes", kHeaderBytes)};
  const bool parsed = error.category() == http::make_error_code(http::error::bad_method).category();
  if (!parsed || error == http::error::end_of_stream || error == http::error::partial_message) return {};
  return {400, fmt::format("no HTTP: {}", error.message())};
}

// Shapes that another reader may take for another request, and what is not offered.
WireFault HeaderFault(const Parser& parser) {
  const auto& message = parser.get();
  const auto count = [&](http::field field) { return message.count(field); };
  const bool encoded = count(http::field::transfer_encoding) > 0;
  if (encoded && count(http::field::content_length) > 0)
    return {400, "Content-Length and Transfer-Encoding: expected one of them"};
  const auto length = message[http::field::content_length];  // "3, 3" is one header with two of them
  if (count(http::field::content_length) > 1 || length.find_first_not_of("0123456789") != length.npos)
    return {400, "Content-Length: expected one number"};
  if (encoded && (count(http::field::transfer_encoding) > 1 || message.version() < 11 || !parser.chunked() ||
                  !boost::beast::iequals(message[http::field::transfer_encoding], "chunked")))
    return {400, "Transfer-Encoding: expected chunked"};
  if (message.version() >= 11 && count(http::field::host) != 1) return {400, "Host: expected it once"};
  if (!message.target().starts_with('/') && message.target() != "*") return {400, "expected a path that begins with /"};
  if (count(http::field::expect) > 0 && !boost::beast::iequals(message[http::field::expect], "100-continue"))
    return {417, "Expect: 100-continue is all that is known"};
  return {};
}

std::shared_ptr<HttpRequest> RequestOf(Parser& parser) {
  auto request = std::make_shared<HttpRequest>();
  auto& message = parser.get();
  request->method = std::string(message.method_string());
  request->target = std::string(message.target());
  for (const auto& field : message)
    request->headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  request->body = std::move(message.body());
  return request;
}

// The client has closed its side, and nothing is left to read.
bool IsGone(tcp::socket& socket) {
  char byte = 0;
  const ssize_t got = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

class HttpServer::Wire {
 public:
  Wire(const HttpServerOptions& options, HttpHandler handler, WireError error)
      : options_(options), handler_(std::move(handler)), error_(std::move(error)) {
    Listen();
  }
  ~Wire() { CloseAll(); }

  int port() const { return acceptor_.local_endpoint().port(); }
  int64_t connections() const { return connections_; }

  bool Run(const std::function<bool()>& stops, const std::function<void()>& stopping) {
    net::co_spawn(*io_, Accept(), net::detached);
    while (!stops()) RunSome();
    stopping();
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    for (Connection* connection : open_)
      if (connection->state == Connection::State::kIdle || connection->state == Connection::State::kReading)
        connection->socket.cancel(ignored);
    const auto end = Clock::now() + Seconds(options_.stop_timeout);
    while (connections_ > 0 && Clock::now() < end) RunSome();
    const bool all = connections_ == 0;
    CloseAll();
    return all;
  }

 private:
  void Listen() {
    const std::string place = fmt::format("{}:{}", options_.host, options_.port);
    error_code error;
    const auto found =
        tcp::resolver(*io_).resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
    if (error || found.empty()) FailOption("host", "{}: {}", Shown(options_.host), error.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    const auto check = [&] {
      if (error) Fail("{}: cannot listen on {}: {}", OptionName{"port"}, Shown(place), error.message());
    };
    acceptor_.open(endpoint.protocol(), error);
    check();
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    check();
    acceptor_.listen(net::socket_base::max_listen_connections, error);
    check();
  }

  void RunSome() {
    io_->restart();
    io_->run_for(std::chrono::milliseconds(50));
  }

  // Connections end here and now, whatever they wait for.
  void CloseAll() {
    closing_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    for (Connection* connection : open_) {
      connection->socket.close(ignored);
      connection->deadline.cancel();
      if (connection->slot) connection->slot->timer.cancel();
    }
    while (connections_ > 0) RunSome();
  }

  net::awaitable<void> Accept() {
    net::steady_timer pause(*io_);
    while (!stopping_ && !closing_) {
      error_code failed;
      if (connections_ < kMostConnections) {
        auto [error, socket] = co_await acceptor_.async_accept(kTuple);
        failed = error;
        if (!error) {
          ++connections_;
          net::co_spawn(*io_, Serve(std::move(socket)), net::detached);
        }
      }
      if (!failed && connections_ < kMostConnections) continue;
      // No descriptors are left, or the client has gone already: the next one is asked for in a while.
      pause.expires_after(std::chrono::milliseconds(20));
      co_await pause.async_wait(kTuple);
    }
  }

  void SetDeadline(const std::shared_ptr<Connection>& connection, Clock::duration time) {
    connection->late = false;
    connection->deadline.expires_after(time);
    connection->deadline.async_wait([connection](const error_code& error) {
      if (error || connection->deadline.expiry() > Clock::now()) return;
      connection->late = true;
      error_code ignored;
      connection->socket.cancel(ignored);
    });
  }

  net::awaitable<void> Serve(tcp::socket socket) {
    const auto connection = std::make_shared<Connection>(std::move(socket));
    const auto place = open_.insert(open_.end(), connection.get());
    error_code ignored;
    connection->socket.set_option(tcp::no_delay(true), ignored);
    bool goes_on = true;
    while (goes_on && !stopping_ && !closing_) goes_on = co_await ServeOne(connection);
    connection->deadline.cancel();
    connection->socket.close(ignored);
    held_ -= connection->body;
    open_.erase(place);
    --connections_;
  }

  // One request and its answer; false: the connection is over.
  net::awaitable<bool> ServeOne(const std::shared_ptr<Connection>& connection) {
    auto& buffer = connection->buffer;
    connection->state = Connection::State::kIdle;
    if (buffer.size() == 0) {
      buffer.shrink_to_fit();
      SetDeadline(connection, kIdle);
      auto [error, bytes] = co_await connection->socket.async_read_some(buffer.prepare(4096), kTuple);
      if (error) co_return false;
      buffer.commit(bytes);
    }
    connection->state = Connection::State::kReading;
    SetDeadline(connection, Seconds(options_.request_timeout));
    Parser parser;
    parser.header_limit(kHeaderBytes);
    parser.body_limit(static_cast<uint64_t>(options_.payload_limit));
    const WireFault fault = co_await Read(connection, parser);
    if (fault.status != 0) {
      co_await Refuse(connection, fault);
      co_return false;
    }
    if (!parser.is_done()) co_return false;
    const bool keeps = parser.get().keep_alive(), head = parser.get().method() == http::verb::head;
    const unsigned version = parser.get().version();
    const std::shared_ptr<HttpRequest> request = RequestOf(parser);
    connection->deadline.cancel();
    connection->state = Connection::State::kWaiting;
    const bool answered = co_await Await(connection, request);
    Hold(*connection, 0);
    if (!answered) {
      request->gone = true;
      co_return false;
    }
    HttpResponse response = std::move(*connection->slot->response);
    connection->slot.reset();
    const bool goes_on = keeps && !stopping_;
    const bool written = co_await Write(connection, std::move(response), version, goes_on, head);
    co_return written&& goes_on;
  }

  // Whether there is room for so many bytes of this connection's body.
  bool Hold(Connection& connection, int64_t bytes) {
    held_ += bytes - connection.body;
    connection.body = bytes;
    return held_ <= options_.body_budget;
  }

  WireFault Fault(const Connection& connection, const error_code& error) const {
    if (stopping_ && error == net::error::operation_aborted) return {503, "the server stops"};
    return FaultOf(error, connection.late, options_.payload_limit);
  }

  net::awaitable<WireFault> Read(const std::shared_ptr<Connection>& connection, Parser& parser) {
    {
      auto [error, bytes] = co_await http::async_read_header(connection->socket, connection->buffer, parser, kTuple);
      if (error) co_return Fault(*connection, error);
    }
    WireFault fault = HeaderFault(parser);
    if (fault.status != 0) co_return fault;
    const WireFault full{429, "the bodies of other requests take all the memory that there is for them"};
    const auto length = parser.content_length();
    if (length && !Hold(*connection, static_cast<int64_t>(*length))) co_return full;
    if (!parser.is_done() && parser.get().count(http::field::expect) > 0 && parser.get().version() >= 11) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      auto [error, bytes] =
          co_await net::async_write(connection->socket, net::buffer(kContinue.data(), kContinue.size()), kTuple);
      if (error) co_return WireFault{};
    }
    while (!parser.is_done()) {
      auto [error, bytes] = co_await http::async_read_some(connection->socket, connection->buffer, parser, kTuple);
      if (error) co_return Fault(*connection, error);
      if (!length && !Hold(*connection, static_cast<int64_t>(parser.get().body().capacity()))) co_return full;
    }
    co_return WireFault{};
  }

  // Hands the request on and waits for its answer; false: the client has gone, or the server ends.
  net::awaitable<bool> Await(const std::shared_ptr<Connection>& connection,
                             const std::shared_ptr<HttpRequest>& request) {
    const auto slot = std::make_shared<Slot>(*io_);
    connection->slot = slot;
    // The context outlives whoever answers late.
    handler_(request, [slot, io = io_](HttpResponse response) {
      net::dispatch(*io, [slot, response = std::move(response)]() mutable {
        slot->response = std::move(response);
        slot->timer.cancel();
      });
    });
    while (!slot->response) {
      slot->timer.expires_after(kLookForClient);
      co_await slot->timer.async_wait(kTuple);
      if (!slot->response && (closing_ || IsGone(connection->socket))) co_return false;
    }
    co_return true;
  }

  net::awaitable<bool> Write(const std::shared_ptr<Connection>& connection, HttpResponse response, unsigned version,
                             bool keeps, bool head) {
    http::response<http::string_body> message;
    message.version(version);
    message.result(static_cast<unsigned>(response.status));
    for (const auto& [name, value] : response.headers) message.insert(name, value);
    message.keep_alive(keeps);
    const bool empty = response.status == 204;
    if (!empty) {
      message.set(http::field::content_type, response.content_type);
      message.content_length(response.body.size());
    }
    message.body() = std::move(response.body);
    connection->state = Connection::State::kWriting;
    SetDeadline(connection, Seconds(options_.request_timeout));
    http::response_serializer<http::string_body> serializer(message);
    error_code failed;
    if (head || empty) {
      auto [error, bytes] = co_await http::async_write_header(connection->socket, serializer, kTuple);
      failed = error;
    } else {
      auto [error, bytes] = co_await http::async_write(connection->socket, serializer, kTuple);
      failed = error;
    }
    co_return !failed;
  }

  // Tells what is wrong, and reads on for a while: a connection that is closed with bytes unread is reset, and the
  // client would not see the answer.
  net::awaitable<void> Refuse(const std::shared_ptr<Connection>& connection, const WireFault& fault) {
    Hold(*connection, 0);
    const bool written = co_await Write(connection, error_(fault.status, fault.message), 11, /*keeps=*/false, false);
    error_code ignored;
    connection->socket.shutdown(tcp::socket::shutdown_send, ignored);
    SetDeadline(connection, kDrain);
    std::string some(16 << 10, '\0');
    for (int64_t drained = 0; written && drained < kDrainBytes;) {
      auto [error, bytes] = co_await connection->socket.async_read_some(net::buffer(some), kTuple);
      if (error) break;
      drained += static_cast<int64_t>(bytes);
    }
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  const WireError error_;
  const std::shared_ptr<net::io_context> io_ = std::make_shared<net::io_context>(1);
  tcp::acceptor acceptor_{*io_};
  std::list<Connection*> open_;
  std::atomic<int64_t> connections_ = 0;
  int64_t held_ = 0;  // bytes of bodies
  bool stopping_ = false, closing_ = false;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler, WireError error)
    : wire_(std::make_unique<Wire>(options, std::move(handler), std::move(error))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return wire_->port(); }
int64_t HttpServer::connections() const { return wire_->connections(); }
bool HttpServer::Run(const std::function<bool()>& stops, const std::function<void()>& stopping) {
  return wire_->Run(stops, stopping);
}

}  // namespace lshformer
