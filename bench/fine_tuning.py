#!/usr/bin/env python3
"""Fine-tuning steps of lshformer and of Hugging Face Transformers on the same checkpoint and sentences, in turns.

    python bench/fine_tuning.py --bin build/release/bin/lshformer --model MINILM --data_dir glue/SST-2 > fine_tuning.json

--task_name mrpc: MRPC's pairs. Both: sentences in random order, batches of 32, AdamW, dropout on, float32. Hugging Face pads a batch to its longest sentence
(dynamic padding); only real tokens count. Needs torch and transformers; nothing of this is needed to build, test or use lshformer.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time


def read_rows(args):
    """[(texts, label)], texts as a tokenizer takes them: one, or a pair."""
    with open(os.path.join(args.data_dir, "train.tsv"), encoding="utf-8-sig") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    if args.task_name == "mrpc":
        return [((row[3], row[4]), int(row[0])) for row in rows]
    return [((row[0],), int(row[1])) for row in rows]


def tokenize(tokenizer, rows, **more):
    return tokenizer(*map(list, zip(*(texts for texts, _ in rows))), truncation=True, max_length=128, **more)


class HuggingFace:
    def __init__(self, args, rows):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.torch, self.args = torch, args
        self.tokenizer = AutoTokenizer.from_pretrained(args.model)
        self.model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5, fused=True)
        self.rows = list(rows)
        random.Random(args.seed).shuffle(self.rows)
        self.next = 0

    def step(self):
        batch = self.rows[self.next : self.next + self.args.batch_size]
        self.next += self.args.batch_size
        inputs = tokenize(self.tokenizer, batch, padding=True, return_tensors="pt")
        loss = self.model(**inputs, labels=self.torch.tensor([label for _, label in batch])).loss
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return int(inputs["attention_mask"].sum())

    def tokens_per_second(self):
        begin, tokens = time.perf_counter(), 0
        for _ in range(self.args.steps):
            tokens += self.step()
        return tokens / (time.perf_counter() - begin)


def ours(args, tokens_per_sentence, extra):
    with tempfile.TemporaryDirectory() as folder:
        command = [args.bin, "train", "--task", "text-classification", "--task_name", args.task_name, "--train_file", os.path.join(args.data_dir, "train.tsv"),
                   "--model_name_or_path", args.model, "--max_seq_length", "128", "--per_device_train_batch_size", str(args.batch_size),
                   "--learning_rate", "2e-5", "--max_steps", str(args.steps), "--save_steps", "0", "--threads", str(args.threads), "--seed", str(args.seed),
                   "--output_dir", folder, "--overwrite_output_dir", "--quiet"] + extra
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "train_results.json"), encoding="utf-8") as file:
            return json.load(file)["train_samples_per_second"] * tokens_per_sentence


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--task_name", choices=["sst2", "mrpc"], default="sst2")
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--bf16", action="store_true", help="lshformer also with --bf16")
    args = parser.parse_args()

    rows = read_rows(args)
    peer = HuggingFace(args, rows)
    sample = random.Random(args.seed).sample(rows, 2000)
    tokens_per_sentence = sum(map(len, tokenize(peer.tokenizer, sample)["input_ids"])) / len(sample)
    peer.step()
    runs = {"hf_fine_tuning_fp32": peer.tokens_per_second, "lshformer_fine_tuning_fp32": lambda: ours(args, tokens_per_sentence, [])}
    if args.bf16:
        runs["lshformer_fine_tuning_bf16"] = lambda: ours(args, tokens_per_sentence, ["--bf16"])
    rates = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            rates[name].append(run())
            print(f"{name:28s} {rates[name][-1]:10.0f} tokens/s", file=sys.stderr, flush=True)
    tokens = args.steps * args.batch_size * tokens_per_sentence
    results = []
    for name, of_run in rates.items():
        rate = statistics.median(of_run)
        results.append({"name": name, "seconds": tokens / rate, "tokens_per_second": rate, "slowest": min(of_run), "fastest": max(of_run)})
    json.dump({"seed": args.seed, "threads": args.threads, "results": results}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
