#!/usr/bin/env python3
"""Sends requests to a server on this machine and tells how long they took: bounded in number and time, loopback alone.

    tools/load_server.py --port 3000 [--route /embed] [--connections 1,8,64] [--requests 500] [--words 8,32] [--document 0] [--document_route /embed_chunks] [--strange 0]

Each connection sends its next request as soon as the last one is answered; a request is one text of as many words as drawn from
--words. --document: a text of so many words is asked for beside them, over and over (at --document_route), and told apart. --strange: so many further
connections, half of which send a byte a second and half of which stop in the middle of a body. Prints a row for each number of
connections: requests and tokens a second, p50, p99, and what failed.
"""

import argparse
import asyncio
import json
import random
import time

WORDS = "the of and to in a is that it was for on are as with his they at be this from have or by one had not but what all were".split()


def body_of(words, rng, route):
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    return json.dumps({"input" if "embeddings" in route else "inputs": text, "truncate": True}).encode()


def request_of(route, body):
    return (f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


class Connection(asyncio.Protocol):
    """Asks one thing after another; little work a request, as the machine is the server's too."""

    def __init__(self):
        self.held, self.need, self.found = bytearray(), 0, None

    @staticmethod
    async def to(port):
        return (await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port))[1]

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.held += data
        if not self.need:
            end = self.held.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.held[:end]).lower()
            number = lambda name: int(head.split(name, 1)[1].split(b"\r\n", 1)[0]) if name in head else 0  # noqa: E731
            self.need = end + 4 + number(b"\r\ncontent-length:")
            self.status, self.tokens = int(head.split(b" ", 2)[1]), number(b"\r\nx-compute-tokens:")
        if len(self.held) >= self.need:
            del self.held[:self.need]
            self.need = 0
            self.found.set_result((self.status, self.tokens))

    def connection_lost(self, error):
        if self.found and not self.found.done():
            self.found.set_result((0, 0))

    def ask(self, request):
        self.found = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.found


class Load:
    def __init__(self, arguments, connections):
        self.arguments, self.connections = arguments, connections
        self.times, self.tokens, self.failed, self.documents = [], 0, {}, []
        self.left = arguments.requests
        self.end = time.monotonic() + arguments.seconds

    async def ask(self, number):
        low, high = self.arguments.words
        rng = random.Random(number)
        connection = await Connection.to(self.arguments.port)
        route = self.arguments.route
        requests = [request_of(route, body_of(rng.randint(low, high), rng, route)) for _ in range(32)]
        while self.left > 0 and time.monotonic() < self.end:
            self.left -= 1
            begin = time.monotonic()
            status, tokens = await connection.ask(requests[self.left % len(requests)])
            if status == 0:
                break
            if status == 200:
                self.times.append(time.monotonic() - begin)
                self.tokens += tokens
            else:
                self.failed[status] = self.failed.get(status, 0) + 1
        connection.transport.close()

    async def document(self):
        connection = await Connection.to(self.arguments.port)
        route = self.arguments.document_route or self.arguments.route
        request = request_of(route, body_of(self.arguments.document, random.Random(7), route))
        while self.left > 0 and time.monotonic() < self.end:
            begin = time.monotonic()
            status, _ = await connection.ask(request)
            self.documents.append((status, time.monotonic() - begin))
        connection.transport.close()

    async def strange(self, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.arguments.port)
        request = request_of(self.arguments.route, b'{"inputs": "the of and to"}')
        if number % 2:
            writer.write(request[:-5])
            await asyncio.sleep(2)
        else:
            for byte in request[:20]:
                writer.write(bytes([byte]))
                await asyncio.sleep(1)
                if self.left <= 0:
                    break
        writer.close()

    async def run(self):
        begin = time.monotonic()
        tasks = [self.ask(i) for i in range(self.connections)] + [self.strange(i) for i in range(self.arguments.strange)]
        if self.arguments.document:
            tasks.append(self.document())
        await asyncio.gather(*tasks)
        seconds, times = time.monotonic() - begin, sorted(self.times) or [0.0]
        pick = lambda share: 1000 * times[min(len(times) - 1, int(share * len(times)))]  # noqa: E731
        row = (f"{self.connections:5} connections: {len(self.times) / seconds:8.1f} requests/s {self.tokens / seconds:9.0f} tokens/s "
               f"p50 {pick(.5):8.2f} ms p99 {pick(.99):8.2f} ms")
        if self.failed:
            row += f" failed {self.failed}"
        if self.documents:
            row += " documents " + ", ".join(f"{status} {took:.1f} s" for status, took in self.documents)
        print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--route", default="/embed")
    parser.add_argument("--connections", type=numbers, default=[1, 8, 64])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--words", type=numbers, default=[8, 32])
    parser.add_argument("--document", type=int, default=0)
    parser.add_argument("--document_route")
    parser.add_argument("--strange", type=int, default=0)
    arguments = parser.parse_args()
    for connections in arguments.connections:
        asyncio.run(Load(arguments, connections).run())


if __name__ == "__main__":
    main()
