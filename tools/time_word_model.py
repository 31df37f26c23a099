#!/usr/bin/env python3
"""Times a model of words in plain PyTorch, eager, on padded batches, as such code usually runs: the questions of a SQuAD file.

    python3 tools/time_word_model.py FOLDER dev-v2.0.json [--batch_size 64] [--threads N] [--max_questions N] [--sort]

FOLDER has config.json (and model.safetensors, else weights are random): "model_type" X is run by load() of X_torch.py beside this
file. Only lengths matter for the time, so texts are cut at spaces and punctuation and a word's ids are a hash of its letters. One
line of JSON: samples per second of the forward alone, with padding and its share of the words.
"""
import argparse
import gzip
import importlib
import json
import re
import time
import zlib
from pathlib import Path

import torch

CHARACTERS = 16


def questions_of(path, longest):
    """(context, question) as lists of words, the out-of-vocabulary word first."""
    cut = lambda text: [""] + re.findall(r"\w+|[^\w\s]", text)[:longest]
    read = gzip.open if path.endswith(".gz") else open
    with read(path, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    for article in articles:
        for paragraph in article["paragraphs"]:
            context = cut(paragraph["context"])
            for question in paragraph["qas"]:
                yield context, cut(question["question"])


def padded(texts, config):
    number = lambda text, most: 2 + zlib.crc32(text.encode()) % (most - 2) if text else 1
    longest = max(map(len, texts))
    words = torch.zeros(len(texts), longest, dtype=torch.long)
    characters = torch.zeros(len(texts), longest, CHARACTERS, dtype=torch.long)
    for b, text in enumerate(texts):
        words[b, :len(text)] = torch.tensor([number(word, config["vocab_size"]) for word in text])
        for t, word in enumerate(text):
            spelled = [number(c, config["character_vocab_size"]) for c in word[:CHARACTERS]] or [1]
            characters[b, t, :len(spelled)] = torch.tensor(spelled)
    return {"words": words, "characters": characters}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("squad")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--max_questions", type=int, default=0, help="0: all")
    parser.add_argument("--max_words", type=int, default=400, help="of a context, the rest is cut off")
    parser.add_argument("--sort", action="store_true", help="batches of like lengths, which need less padding")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = json.loads((Path(args.folder) / "config.json").read_text())
    model = importlib.import_module(config["model_type"] + "_torch").load(args.folder)
    examples = list(questions_of(args.squad, args.max_words))[:args.max_questions or None]
    if args.sort:
        examples.sort(key=lambda example: len(example[0]))
    batches = []
    for i in range(0, len(examples), args.batch_size):
        contexts, questions = zip(*examples[i:i + args.batch_size])
        batches.append((padded(contexts, model.config), padded(questions, model.config)))
    with torch.inference_mode():
        model(*batches[0])  # warm
        begin = time.perf_counter()
        for batch in batches:
            model(*batch)
        seconds = time.perf_counter() - begin
    places, words = (sum(int(x) for x in counts) for counts in zip(*((c["words"].numel(), (c["words"] != 0).sum()) for c, _ in batches)))
    print(json.dumps({"name": "torch", "model_type": config["model_type"], "torch": torch.__version__, "threads": args.threads, "batch_size": args.batch_size,
                      "samples": len(examples), "seconds": seconds, "samples_per_second": len(examples) / seconds, "padding": 1 - words / places}))


if __name__ == "__main__":
    main()
