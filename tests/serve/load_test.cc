// A server with many connections at once, and requests of every shape on them: over the wire, with a model behind it.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "cli/random_models.h"
#include "serve/client.h"
#include "serve/server_process.h"

namespace lshformer {
namespace {

using testing::Client;
using testing::Reply;
using testing::ServerProcess;
using testing::TempFolder;

class ServeLoadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempFolder;
    SaveRandomModels(*models_, {{"vectors", Task::kEncoder}});
  }
  static void TearDownTestSuite() {
    delete models_;
    models_ = nullptr;
  }
  static std::string Folder() { return *models_ / "vectors"; }
  static inline TempFolder* models_ = nullptr;
};

std::string Request(const std::string& body, const std::string& path = "/embed", const std::string& headers = "") {
  return "POST " + path +
         " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + headers + "\r\n" + body;
}

int64_t Descriptors(const ServerProcess& server) {
  return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(server.pid()) + "/fd"),
                       std::filesystem::directory_iterator());
}

// A figure of /metrics.
int64_t Figure(Client& client, const std::string& name) {
  const std::string text = client.Get("/metrics").body;
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + name.size() + 2);
}

template <class Condition>
bool Soon(const Condition& condition) {
  for (int i = 0; i < 600; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// Half send their request in pieces, a tenth stop inside of the body, a tenth go away after it; the others get what one
// client alone gets. Afterwards the server has the descriptors that it had, and memory within what the connections and
// the bodies of that time may take.
TEST_F(ServeLoadTest, ManyConnectionsOfWhichSomeAreSlowAndSomeAreCut) {
  constexpr size_t kCount = 200;
  ServerProcess server({Folder()});
  Client watch(server.port());
  const std::string body = R"({"inputs": "the of that it was"})", request = Request(body);
  const Reply alone = watch.Post("/embed", body);
  ASSERT_EQ(alone.status, 200);
  const int64_t descriptors = Descriptors(server), resident = Figure(watch, "process_resident_memory_bytes");
  std::vector<std::unique_ptr<Client>> clients;
  const auto is_cut = [](size_t i) { return i % 10 == 3; };
  const auto leaves = [](size_t i) { return i % 10 == 6; };
  for (size_t i = 0; i < kCount; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    if (is_cut(i))
      clients[i]->Send(request.substr(0, request.size() - 1 - i % body.size()));
    else if (i % 2 == 1)
      clients[i]->Send(request.substr(0, 1 + i % (request.size() - 1)));
  }
  ASSERT_TRUE(Soon([&] { return Figure(watch, "lshformer_connections") == kCount + 1; }));
  for (size_t i = 0; i < kCount; ++i) {
    if (is_cut(i)) {
      clients[i]->Close();
    } else {
      clients[i]->Send(i % 2 == 1 ? request.substr(1 + i % (request.size() - 1)) : request);
      if (leaves(i)) clients[i]->Close();
    }
  }
  for (size_t i = 0; i < kCount; ++i) {
    if (is_cut(i) || leaves(i)) continue;
    const Reply reply = clients[i]->Receive();
    EXPECT_EQ(reply.status, 200) << i << " " << reply.body;
    EXPECT_EQ(reply.body, alone.body) << i;
  }
  clients.clear();
  EXPECT_TRUE(Soon([&] { return Figure(watch, "lshformer_connections") == 1; }));
  EXPECT_EQ(Descriptors(server), descriptors);
  EXPECT_EQ(Figure(watch, "te_queue_size"), 0);
  EXPECT_EQ(Figure(watch, "lshformer_inputs_running"), 0);
  EXPECT_LE(Figure(watch, "process_resident_memory_bytes"), resident + (int64_t{100} << 20));
}

// More inputs than are accepted at once: each is answered or refused with 429, and none is left without an answer.
TEST_F(ServeLoadTest, MoreThanItAcceptsIsRefused) {
  ServerProcess server({Folder(), "--max_concurrent_requests", "2", "--max_client_batch_size", "2"});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<Client>(server.port()));
  const std::string request = Request(R"({"inputs": ["the of", "that it was"]})");
  for (const auto& client : clients) client->Send(request);
  int answered = 0, refused = 0;
  for (const auto& client : clients) {
    const Reply reply = client->Receive();
    answered += reply.status == 200 ? 1 : 0;
    refused += reply.status == 429 && reply.Header("retry-after") == "1" ? 1 : 0;
  }
  EXPECT_GE(answered, 1);
  EXPECT_EQ(answered + refused, 40);
}

// Good requests, bad ones and other methods behind one another, sent at once: answered in their order, on one
// connection.
TEST_F(ServeLoadTest, RequestsOfAllKindsShareAConnection) {
  ServerProcess server({Folder()});
  Client client(server.port());
  const std::string good = R"({"inputs": "the of"})";
  const auto bare = [](const std::string& method, const std::string& path) {
    return method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  const std::vector<std::pair<std::string, int>> requests{
      {Request(good), 200},
      {Request("{"), 422},
      {bare("GET", "/health"), 200},
      {Request(good, "/embed", "Content-Encoding: gzip\r\n"), 415},
      {Request("\x1f\x8b\x08\x00", "/embed", "Content-Encoding: gzip\r\n"), 415},
      {bare("GET", "/embed"), 405},
      {bare("OPTIONS", "/embed"), 204},
      {Request(good, "/x/../embed"), 404},
      {Request(good, "/../../embed"), 404},
      {Request(good, "/%65mbed"), 404},
      {"POST /embed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"inp\r\nf\r\nuts\": \"the "
       "of\"}\r\n0\r\n\r\n",
       200},
      {bare("DELETE", "/embed"), 405},
      {Request(R"({"inputs": "a", "dimensions": 1e400})"), 422},
      {Request("{\"inputs\": \"\xff\"}"), 422},
      {Request(good), 200}};
  std::string all;
  for (const auto& [request, status] : requests) all += request;
  client.Send(all);
  std::string first;
  for (const auto& [request, status] : requests) {
    const Reply reply = client.Receive();
    EXPECT_EQ(reply.status, status) << request << reply.body;
    if (status == 405) {
      EXPECT_EQ(reply.Header("allow"), "POST, OPTIONS");
    }
    if (status != 200 || !request.starts_with("POST")) continue;
    if (first.empty()) first = reply.body;
    EXPECT_EQ(reply.body, first);
  }
  client.Send(bare("HEAD", "/health") + bare("HEAD", "/docs") + bare("GET", "/ping"));
  EXPECT_EQ(client.Receive(/*head=*/true).status, 200);
  EXPECT_GT(std::atoi(client.Receive(/*head=*/true).Header("content-length").c_str()), 100);
  EXPECT_EQ(client.Receive().status, 200);
}

// What may be read in two ways ends the connection with the request that is known, whatever stands behind it.
TEST_F(ServeLoadTest, ASmuggledRequestIsNotAnswered) {
  ServerProcess server({Folder()});
  Client client(server.port());
  const std::string good = Request(R"({"inputs": "the of"})");
  client.Send(good +
              "POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
              good);
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_EQ(client.Receive().status, 400);
  EXPECT_EQ(client.Receive().status, 0);
}

TEST_F(ServeLoadTest, ABodyThatTricklesIsGivenUpAndTheOthersAreServed) {
  ServerProcess server({Folder(), "--request_timeout", "1"});
  Client slow(server.port()), other(server.port());
  const std::string request = Request(R"({"inputs": "the of"})");
  std::thread trickle([&] {
    for (const char byte : request) {
      if (!slow.Send({&byte, 1})) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(other.Post("/embed", R"({"inputs": "the of"})").status, 200);
  EXPECT_EQ(slow.Receive().status, 408);
  trickle.join();
}

}  // namespace
}  // namespace lshformer
