#!/usr/bin/env python3
"""Asks a server with clients that others wrote, as they are: openai, huggingface_hub, cohere, prometheus_client, requests.

    PYTHON tools/check_clients.py --masks DIR [--labels DIR] [--questions DIR] [--ranks DIR] [--program build/release/bin/lshformer]

The folders are models for masked words (asked for vectors too), classification, questions and ranking (one label). Prints a row
for each client and call, and why one is left out (its package is not there, no folder); exits 1 when one fails. Loopback alone.
"""

import argparse
import importlib
import json
import math
import re
import subprocess
import sys
import urllib.request


class Server:
    def __init__(self, program, words):
        self.process = subprocess.Popen([program, "serve", "--port", "0", *words], stdout=subprocess.PIPE, text=True)
        self.url = re.match(r"listening on (http://\S+)", self.process.stdout.readline()).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)


failures = 0


def check(package, call, run):
    """run(the package) gives whether what came is right."""
    global failures
    try:
        module = importlib.import_module(package)
    except ImportError:
        print(f"{package}: {call}: left out, the package is not there")
        return
    try:
        right = run(module)
        said = "as it should be" if right else "another answer than the server's own"
    except Exception as error:  # whatever a client throws
        right, said = False, f"{type(error).__name__}: {error}"
    failures += not right
    print(f"{package}: {call}: {said}")


def close(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-7) for x, y in zip(a, b))


def check_vectors(server):
    texts = ["a long contract", "the weather"]
    vectors = server.post("/embed", {"inputs": texts})

    def openai_embeddings(openai, **options):
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="any")
        found = client.embeddings.create(model="any", input=texts, **options)
        return all(close(one.embedding, vector) for one, vector in zip(found.data, vectors)) and found.usage.total_tokens > 0

    check("openai", "embeddings, base64", openai_embeddings)
    check("openai", "embeddings, float", lambda m: openai_embeddings(m, encoding_format="float"))

    def late_chunking(openai):
        own = server.post("/embed_chunks", {"inputs": " ".join(texts), "spans": [[0, len(texts[0])], [len(texts[0]) + 1, len(" ".join(texts))]]})[0]
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="any")
        found = client.embeddings.create(model="any", input=texts, extra_body={"late_chunking": True})
        return all(close(one.embedding, chunk["embedding"]) for one, chunk in zip(found.data, own))

    check("openai", "embeddings, late chunking", late_chunking)
    check("openai", "models", lambda m: len(m.OpenAI(base_url=server.url + "/v1", api_key="any").models.list().data) == 1)
    check("huggingface_hub", "feature_extraction",
          lambda m: close(list(m.InferenceClient(server.url).feature_extraction(texts[0])[0]), vectors[0]))
    check("huggingface_hub", "feature_extraction, options",
          lambda m: close(list(m.InferenceClient(server.url).feature_extraction(texts[0], normalize=False, truncate=True, encoding_format="float")[0]),
                          server.post("/embed", {"inputs": texts[0], "normalize": False})[0]))
    check("huggingface_hub", "sentence_similarity",
          lambda m: len(m.InferenceClient(server.url).sentence_similarity(texts[0], other_sentences=texts)) == 2)
    check("requests", "embed", lambda m: m.post(server.url + "/embed", json={"inputs": texts}, timeout=60).json() == vectors)

    def figures(_):
        from prometheus_client.parser import text_string_to_metric_families
        text = urllib.request.urlopen(server.url + "/metrics").read().decode()
        names = {family.name for family in text_string_to_metric_families(text)}
        return {"te_request_count", "te_request_duration", "te_queue_size"} <= names

    check("prometheus_client", "metrics", figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/lshformer")
    parser.add_argument("--masks", required=True)
    for name in ["labels", "questions", "ranks"]:
        parser.add_argument("--" + name)
    arguments = parser.parse_args()
    with Server(arguments.program, [arguments.masks, "--task", "feature-extraction"]) as server:
        check_vectors(server)
    with Server(arguments.program, [arguments.masks, "--task", "fill-mask"]) as server:
        text = "The [MASK] is long."
        own = server.post("/fill_mask", {"inputs": text})
        check("huggingface_hub", "fill_mask",
              lambda m: [one.token_str for one in m.InferenceClient(server.url).fill_mask(text)] == [one["token_str"] for one in own])
        words = ["river", "house"]
        check("huggingface_hub", "fill_mask, targets and top_k",
              lambda m: {one.token_str for one in m.InferenceClient(server.url).fill_mask(text, targets=words)} == set(words)
              and len(m.InferenceClient(server.url).fill_mask(text, top_k=2)) == 2)
    if arguments.labels:
        with Server(arguments.program, [arguments.labels]) as server:
            own = server.post("/predict", {"inputs": "a fine film"})
            raw = server.post("/predict", {"inputs": "a fine film", "raw_scores": True})
            check("huggingface_hub", "text_classification, function_to_apply and top_k",
                  lambda m: [one.score for one in m.InferenceClient(server.url).text_classification(
                      "a fine film", function_to_apply="none", top_k=1)] == [raw[0]["score"]])
            check("huggingface_hub", "text_classification",
                  lambda m: m.InferenceClient(server.url).text_classification("a fine film")[0].label == own[0]["label"])
    if arguments.questions:
        with Server(arguments.program, [arguments.questions]) as server:
            asked = {"question": "Who found it?", "context": "In the end Clara found it behind a chair."}
            own = server.post("/question_answering", asked)
            check("huggingface_hub", "question_answering",
                  lambda m: m.InferenceClient(server.url).question_answering(**asked).answer == own["answer"])
            check("huggingface_hub", "question_answering, options",
                  lambda m: len(m.InferenceClient(server.url).question_answering(
                      **asked, top_k=3, max_answer_len=5, doc_stride=8, align_to_words=True, handle_impossible_answer=False)) == 3)
    if arguments.ranks:
        with Server(arguments.program, [arguments.ranks]) as server:
            documents = ["the weather", "a long contract"]
            own = server.post("/v2/rerank", {"query": "a contract", "documents": documents})["results"]
            check("cohere", "rerank", lambda m: [one.index for one in m.ClientV2("any", base_url=server.url).rerank(
                model="any", query="a contract", documents=documents).results] == [one["index"] for one in own])
    else:
        print("cohere: rerank: left out, no --ranks")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
