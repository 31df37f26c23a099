#!/usr/bin/env python3
"""Masked-LM steps of lshformer and of Hugging Face Transformers on the same config, full blocks of random ids, in turns.

    python bench/masked_lm.py --bin build/release/bin/lshformer --config albert-base/config.json > masked_lm.json

Both: 15 % of the tokens labelled, AdamW, dropout as the config says, float32. Needs torch and transformers; nothing of this is needed
to build, test or use lshformer.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


class HuggingFace:
    def __init__(self, args):
        import torch
        from transformers import AutoConfig, AutoModelForMaskedLM
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.torch, self.args = torch, args
        config = AutoConfig.from_pretrained(os.path.dirname(os.path.abspath(args.config)))
        self.vocabulary = config.vocab_size
        self.model = AutoModelForMaskedLM.from_config(config).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def step(self):
        torch, shape = self.torch, (self.args.batch_size, self.args.length)
        ids = torch.randint(5, self.vocabulary, shape)
        labels = torch.where(torch.rand(shape) < 0.15, ids, -100)
        self.model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def tokens_per_second(self):
        times = []
        for _ in range(self.args.steps):
            begin = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - begin)
        return self.args.batch_size * self.args.length / statistics.median(times)


def ours(args):
    command = [args.bin, "bench", "train", "--config_name", args.config, "--lengths", str(args.length), "--batch_size", str(args.batch_size),
               "--runs", str(args.steps), "--threads", str(args.threads), "--seed", str(args.seed), "--json", "--quiet"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"GEMM {result['machine']['gemm_gflops']:.0f} GFLOP/s", file=sys.stderr)
    return result["results"][0]["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--config", required=True, help="a config.json")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    peer = HuggingFace(args)
    peer.step()
    runs = {"hf_masked_lm_fp32": peer.tokens_per_second, "lshformer_masked_lm_fp32": lambda: ours(args)}
    rates = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            rates[name].append(run())
            print(f"{name:26s} {rates[name][-1]:10.0f} tokens/s", file=sys.stderr, flush=True)
    results = [{"name": name, "tokens_per_second": statistics.median(of_run), "slowest": min(of_run), "fastest": max(of_run)}
               for name, of_run in rates.items()]
    json.dump({"seed": args.seed, "threads": args.threads, "length": args.length, "batch_size": args.batch_size, "results": results}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
