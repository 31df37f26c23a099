// The wire, without a model behind it: what is let in, what is refused and how, and that nothing is lost or leaked.
#include "serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/client.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::Client;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Reply;
using ::testing::StartsWith;

HttpResponse Text(std::string body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Answers with method, path and body; "/later" when Release is called; "/thread" from another thread.
class EchoServer {
 public:
  explicit EchoServer(HttpServerOptions options = {}) {
    server_ = std::make_unique<HttpServer>(
        options,
        [this](std::shared_ptr<HttpRequest> request, Respond respond) {
          Handle(std::move(request), std::move(respond));
        },
        [](int status, const std::string& message) { return Text(message, status); });
    thread_ = std::thread([this] { all_ = server_->Run([this] { return stops_.load(); }, [] {}); });
  }
  ~EchoServer() { Stop(); }
  bool Stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
    return all_;
  }
  int port() const { return server_->port(); }
  int64_t connections() const { return server_->connections(); }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(later_.size());
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    for (auto& [request, respond] : later_) {
      gone_ += request->gone ? 1 : 0;
      respond(Text("later"));
    }
    later_.clear();
  }
  int gone() const { return gone_; }

 private:
  void Handle(std::shared_ptr<HttpRequest> request, Respond respond) {
    if (request->path() == "/later") {
      const std::lock_guard lock(mutex_);
      later_.emplace_back(std::move(request), std::move(respond));
      return;
    }
    HttpResponse response = Text(request->method + " " + request->target + " " + request->body);
    if (request->path() == "/thread")
      std::thread([respond, response] { respond(response); }).detach();
    else
      respond(std::move(response));
  }

  std::unique_ptr<HttpServer> server_;
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<HttpRequest>, Respond>> later_;
  std::atomic<bool> stops_ = false;
  std::atomic<int> gone_ = 0;
  bool all_ = false;
  std::thread thread_;
};

template <class Condition>
bool Soon(const Condition& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(HttpServerTest, KeepsAConnectionAndAnswersInOrder) {
  EchoServer server;
  Client client(server.port());
  EXPECT_EQ(client.Get("/a?b=c").body, "GET /a?b=c ");
  EXPECT_EQ(client.Post("/thread", "xyz").body, "POST /thread xyz");
  // Pipelined, of which the first is answered last by its thread.
  client.Send("POST /thread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\noneGET /two HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.Receive().body, "POST /thread one");
  EXPECT_EQ(client.Receive().body, "GET /two ");
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpServerTest, ReadsChunksAndBodiesInPieces) {
  EchoServer server;
  Client client(server.port());
  const std::string head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char byte : head + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n") client.Send({&byte, 1});
  EXPECT_EQ(client.Receive().body, "POST /a abcde");
  client.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  client.Send("hi");
  EXPECT_EQ(client.Receive().body, "POST /a hi");
}

TEST(HttpServerTest, HeadHasTheLengthAndNoBody) {
  EchoServer server;
  Client client(server.port());
  client.Send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
  const Reply reply = client.Receive(/*head=*/true);
  EXPECT_EQ(reply.Header("content-length"), "8");
  EXPECT_EQ(client.Get("/b").body, "GET /b ");  // nothing else came
}

TEST(HttpServerTest, ClosesWhereTheClientWantsIt) {
  EchoServer server;
  Client client(server.port());
  EXPECT_EQ(client.Get("/a", "Connection: close\r\n").status, 200);
  EXPECT_TRUE(client.IsClosed());
  Client old(server.port());
  old.Send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Receive().status, 200);
  EXPECT_TRUE(old.IsClosed());
}

// What two readers may take for different requests is refused, and nothing that follows on the connection is read.
TEST(HttpServerTest, RefusesWhatMayBeReadInTwoWays) {
  EchoServer server;
  const std::string next = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", post = "POST /a HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& request : std::vector<std::string>{
           post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + next,
           post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd" + next,
           post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc" + next,
           post + "Content-Length: 3, 3\r\n\r\nabc" + next,
           post + "Content-Length: +3\r\n\r\nabc" + next,
           post + "Content-Length: -1\r\n\r\n" + next,
           post + "Content-Length: 99999999999999999999\r\n\r\n" + next,
           post + "Content-Length : 3\r\n\r\nabc" + next,
           post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n" + next,
           post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n" + next,
           "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
           "GET /a HTTP/1.1\r\n\r\n" + next,
           "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + next,
           "GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n" + next,
           "GET /a HTTP/2.0\r\nHost: a\r\n\r\n" + next,
           "GET /a\r\n\r\n" + next,
           "nonsense\r\n\r\n",
           std::string("\0\0\0\1", 4) + "\r\n\r\n",
           "G\rET /a HTTP/1.1\r\nHost: a\r\n\r\n" + next}) {
    Client client(server.port());
    client.Send(request);
    const Reply reply = client.Receive();
    // A length beyond the limit is one that is too large.
    EXPECT_TRUE(reply.status == 400 || reply.status == 413) << reply.status << " " << request;
    EXPECT_EQ(client.Receive().status, 0) << request;
  }
}

TEST(HttpServerTest, RefusesWhatIsTooLargeAndIsReadToTheEnd) {
  EchoServer server({.payload_limit = 1000});
  {
    Client client(server.port());
    const Reply reply = client.Post("/a", std::string(1'000'000, 'x'));
    EXPECT_EQ(reply.status, 413);
    EXPECT_THAT(reply.body, HasSubstr("1000 bytes"));
    EXPECT_TRUE(client.IsClosed());
  }
  {
    Client client(server.port());
    client.Send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; ++i) client.Send("64\r\n" + std::string(100, 'x') + "\r\n");
    EXPECT_EQ(client.Receive().status, 413);
  }
  {
    Client client(server.port());
    client.Send("GET /a HTTP/1.1\r\nHost: a\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
    EXPECT_EQ(client.Receive().status, 431);
  }
  Client client(server.port());
  EXPECT_EQ(client.Post("/a", std::string(1000, 'x')).status, 200);
}

TEST(HttpServerTest, BodiesTogetherAreBounded) {
  EchoServer server({.payload_limit = 1000, .body_budget = 1500});
  Client first(server.port());
  first.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
  Client second(server.port());
  ASSERT_TRUE(Soon([&] { return Client(server.port()).Post("/a", std::string(1000, 'x')).status == 429; }));
  EXPECT_EQ(second.Post("/a", std::string(100, 'x')).status, 200);
  first.Send(std::string(999, 'x'));
  EXPECT_EQ(first.Receive().status, 200);
  EXPECT_EQ(second.Post("/a", std::string(1000, 'x')).status, 200);
}

TEST(HttpServerTest, ARequestThatTricklesIsGivenUp) {
  EchoServer server({.request_timeout = 0.3});
  Client header(server.port()), body(server.port());
  header.Send("GET /a HTT");
  body.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(header.Receive().status, 408);
  EXPECT_EQ(body.Receive().status, 408);
  EXPECT_TRUE(Soon([&] {
    header.Close();
    body.Close();
    return server.connections() == 0;
  }));
}

TEST(HttpServerTest, AClientThatGoesAwayIsSeen) {
  EchoServer server;
  for (const bool pipelined : {false, true}) {
    Client client(server.port());
    client.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(Soon([&] { return server.waiting() == 1; }));
    if (pipelined) {  // what comes after the request is no reason to give up
      client.Send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      server.Release();
      EXPECT_EQ(client.Receive().body, "later");
      EXPECT_EQ(client.Receive().body, "GET /next ");
      continue;
    }
    client.Close();
    ASSERT_TRUE(Soon([&] { return server.connections() == 0; }));
    server.Release();
    EXPECT_EQ(server.gone(), 1);
  }
}

// Clients that stop at each byte of a request leave nothing behind.
TEST(HttpServerTest, NothingIsLeakedByClientsThatStopAnywhere) {
  EchoServer server;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  const std::string request = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  for (size_t bytes = 0; bytes <= request.size(); ++bytes) {
    Client client(server.port());
    client.Send(request.substr(0, bytes));
  }
  EXPECT_TRUE(Soon([&] { return server.connections() == 0 && descriptors() == before; }));
}

TEST(HttpServerTest, ManyConnectionsAtOnce) {
  EchoServer server;
  constexpr int kCount = 300;
  std::vector<std::unique_ptr<Client>> clients;
  const std::string request = "POST /thread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  for (int i = 0; i < kCount; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    if (i % 2 == 0) clients.back()->Send(request.substr(0, 20));
  }
  for (int i = 0; i < kCount; ++i) {
    if (i % 10 == 0) continue;  // these are cut
    clients[static_cast<size_t>(i)]->Send(i % 2 == 0 ? request.substr(20) : request);
  }
  for (int i = 0; i < kCount; ++i) {
    if (i % 10 == 0) continue;
    EXPECT_EQ(clients[static_cast<size_t>(i)]->Receive().body, "POST /thread abc") << i;
  }
  clients.clear();
  EXPECT_TRUE(Soon([&] { return server.connections() == 0; }));
}

TEST(HttpServerTest, StoppedItFinishesWhatItHas) {
  EchoServer server;
  Client idle(server.port()), waits(server.port()), reads(server.port());
  EXPECT_EQ(idle.Get("/a").status, 200);
  waits.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Soon([&] { return server.waiting() == 1; }));
  reads.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
  ASSERT_TRUE(Soon([&] { return server.connections() == 3; }));
  std::thread release([&] {
    EXPECT_TRUE(idle.IsClosed());  // at once
    server.Release();
  });
  EXPECT_TRUE(server.Stop());
  release.join();
  EXPECT_EQ(waits.Receive().body, "later");
  EXPECT_TRUE(waits.IsClosed());
  EXPECT_THROW(Client(server.port()), std::exception);
}

TEST(HttpServerTest, StoppedItDoesNotWaitForEver) {
  EchoServer server({.stop_timeout = 0.2});
  Client waits(server.port());
  waits.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Soon([&] { return server.waiting() == 1; }));
  EXPECT_FALSE(server.Stop());
  EXPECT_TRUE(waits.IsClosed());
  server.Release();  // an answer that comes too late does no harm
}

TEST(HttpServerTest, AnAddressThatCannotBeHadIsAnError) {
  EchoServer server;
  const auto listen = [](const char* host, int port) {
    return ErrorOf([&] {
      HttpServer(
          {.host = host, .port = port}, [](auto, auto) {}, [](int, auto&) { return HttpResponse(); });
    });
  };
  EXPECT_THAT(listen("127.0.0.1", server.port()), StartsWith("port: cannot listen on 127.0.0.1:"));
  EXPECT_THAT(listen("no.such.host.invalid", 0), StartsWith("host: no.such.host.invalid"));
}

}  // namespace
}  // namespace lshformer
