#!/usr/bin/env python3
"""Times embeddings beside sentence-transformers: texts a second of a folder, and training steps on pairs.

    pip install torch sentence-transformers
    python3 tools/time_sentences.py embed --bin build/release/bin/lshformer --model DIR --texts lines.txt --threads 2
    python3 tools/time_sentences.py train --bin … --model DIR --pairs pairs.tsv --threads 2 --steps 20 [--batch 32] [--bf16]

embed: both read all texts and make their vectors, in turn, --runs times; the medians count. Of sentence-transformers
`encode` alone is timed, of lshformer the whole of `predict` less a run on one text: starting either is not. The largest
difference of two vectors' numbers is printed too.
train: in-batch negatives (MultipleNegativesRankingLoss, `--loss mnrl`), AdamW at a constant rate, one pass over the same
pairs: the peer's batches are those of the file's order, lshformer draws its own. Of sentence-transformers a plain loop
over its model and loss is timed, with --bf16 under torch's autocast; of lshformer `train_runtime`, with --bf16 its own.
Both models are left in --output_dir.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begin


def embed(options):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(options.threads)
    texts = open(options.texts, encoding="utf-8").read().splitlines()[: options.count]
    model = SentenceTransformer(options.model, device="cpu")
    folder = tempfile.mkdtemp()
    lines, one = os.path.join(folder, "texts.txt"), os.path.join(folder, "one.txt")
    open(lines, "w", encoding="utf-8").write("".join(text + "\n" for text in texts))
    open(one, "w", encoding="utf-8").write("one\n")
    matrix = os.path.join(folder, "vectors.npy")

    def own(name, flags):
        run = [options.bin, "predict", "--model_name_or_path", options.model, "--task", "feature-extraction", "--threads",
               str(options.threads), "--no_progress", "--output", matrix, *flags, "--text_file"]
        return name, lambda: -seconds(run + [one]) + seconds(run + [lines])  # the matrix that is left is that of all

    def peer():
        begin = time.perf_counter()
        peer.vectors = model.encode(texts, batch_size=32, show_progress_bar=False)
        return time.perf_counter() - begin

    ways = [("sentence-transformers", peer), own("lshformer float32", [])]
    ways += [own("lshformer " + flag, ["--" + flag]) for flag in options.precisions.split(",") if flag]
    times = {name: [] for name, _ in ways}
    for _ in range(options.runs):
        for name, run in ways:
            times[name].append(run())
            if name == "lshformer float32":
                difference = float(np.abs(np.load(matrix) - peer.vectors).max())
    base = statistics.median(times["sentence-transformers"])
    for name, each in times.items():
        median = statistics.median(each)
        rates = ", ".join(f"{len(texts) / t:.1f}" for t in each)
        print(f"{name}: {len(texts) / median:.1f} texts/s, {base / median:.2f}x ({rates})", flush=True)
    print(f"largest difference of float32: {difference:.2g}")


def train(options):
    import torch
    from sentence_transformers import SentenceTransformer, losses
    from sentence_transformers.util import batch_to_device

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    count = options.steps * options.batch
    pairs = [line.rstrip("\n").split("\t") for line in open(options.pairs, encoding="utf-8")][1 : count + 1]
    os.makedirs(options.output_dir, exist_ok=True)
    data = os.path.join(options.output_dir, "pairs.tsv")
    open(data, "w", encoding="utf-8").write("anchor\tpositive\n" + "".join("\t".join(pair) + "\n" for pair in pairs))
    if not options.own_only:
        model = SentenceTransformer(options.model, device="cpu")
        loss = losses.MultipleNegativesRankingLoss(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.0)
        model.train()
        begin = time.perf_counter()
        for step in range(options.steps):
            batch = pairs[step * options.batch : (step + 1) * options.batch]
            features = [batch_to_device(model.tokenize(list(column)), model.device) for column in zip(*batch)]
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                value = loss(features, None)
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        elapsed = time.perf_counter() - begin
        print(f"sentence-transformers: {count / elapsed:.2f} pairs/s, loss of the last batch {value.item():.4f}", flush=True)
        model.save(os.path.join(options.output_dir, "peer"))
    own = os.path.join(options.output_dir, "own")
    subprocess.run(
        [options.bin, "train", "--task", "sentence-similarity", "--loss", "mnrl", "--model_name_or_path", options.model,
         "--train_file", data, "--output_dir", own, "--overwrite_output_dir", "--per_device_train_batch_size",
         str(options.batch), "--max_steps", str(options.steps), "--learning_rate", str(options.learning_rate),
         "--lr_scheduler_type", "constant", "--weight_decay", "0", "--seed", str(options.seed), "--threads",
         str(options.threads), "--no_progress", *(["--bf16"] if options.bf16 else [])],
        check=True, stdout=subprocess.DEVNULL,
    )
    results = json.load(open(os.path.join(own, "train_results.json"), encoding="utf-8"))
    print(f"lshformer: {count / results['train_runtime']:.2f} pairs/s, mean loss {results['train_loss']:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("embed", embed), ("train", train)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--bin", required=True)
        command.add_argument("--model", required=True)
        command.add_argument("--threads", type=int, default=2)
        if name == "embed":
            command.add_argument("--texts", required=True)
            command.add_argument("--count", type=int, default=None)
            command.add_argument("--runs", type=int, default=3)
            command.add_argument("--precisions", default="int8")
            continue
        command.add_argument("--pairs", required=True)
        command.add_argument("--steps", type=int, default=20)
        command.add_argument("--batch", type=int, default=32)
        command.add_argument("--learning_rate", type=float, default=2e-5)
        command.add_argument("--seed", type=int, default=42)
        command.add_argument("--output_dir", default="sentences")
        command.add_argument("--own_only", action="store_true")
        command.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
