#!/usr/bin/env python3
"""What AMX brings on this machine, beside other programs, as one table.

    tools/bench_tiles.py --bin build/release/bin/lshformer --model BERT_BASE_DIR [--minilm DIR] [--texts FILE] [--only PART …]

Needs a processor with amx_tile. Programs take turns in one run (--rounds); a figure is the median, beside it what it should be at least.
Peers are used where they are installed (pip install torch transformers openvino nncf ctranslate2); which are missing is said. BERT_BASE_DIR
and DIR are checkpoints of Hugging Face's layout with their tokenizers; FILE is JSON lines with a "text", else sentences are made up.
Nothing of this is needed to build, test or use lshformer.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = ["torch", "transformers", "openvino", "nncf", "ctranslate2"]
PARTS = ["attention", "long", "short", "float32", "accuracy", "alone", "bits", "model", "training"]
LENGTHS = [512, 1024, 2048, 4096, 8192]
LONG = [512, 2048, 8192]
DENSE, REFORMER = '{"type":"dense"}', '{"type":"reformer","rounds":1}'
SORTED = '{"type":"simhash","pairs":"sorted","fill":"none"}'
WITHOUT_TILES = ["--isa", "avx512"]
HIGH = ["--float32_matmul_precision", "high"]


def processor_has(flag):
    try:
        with open("/proc/cpuinfo") as file:
            return any(line.startswith("flags") and flag in line.split() for line in file)
    except OSError:
        return False


class Table:
    """Rows are printed as they come."""

    def __init__(self):
        print(f"{'what':62s} {'ours':>11s} {'other':>11s} {'ratio':>7s}  wanted", flush=True)

    def row(self, what, ours, other, ratio, wanted):
        def show(x):
            return "-" if x is None else x if isinstance(x, str) else f"{x:.4g}"
        verdict = "" if ratio is None or wanted is None else "  ok" if ratio >= wanted else "  SHORT"
        print(f"{what:62s} {show(ours):>11s} {show(other):>11s} {show(ratio):>7s}  {'' if wanted is None else f'>= {wanted:g}'}{verdict}", flush=True)

    def at_most(self, what, ours, most):
        print(f"{what:62s} {ours:11.4g} {'-':>11s} {'-':>7s}  <= {most:g}  {'ok' if ours <= most else 'SHORT'}", flush=True)

    def holds(self, what, is_so, otherwise):
        print(f"{what:62s}  {'ok' if is_so else otherwise}", flush=True)

    def times(self, what, ours, other, wanted):
        """Milliseconds: less is better."""
        self.row(what, ours, other, None if not ours or not other else other / ours, wanted)

    def rates(self, what, ours, other, wanted):
        self.row(what, ours, other, None if not ours or not other else ours / other, wanted)


class Bench:
    def __init__(self, args):
        self.args, self.table = args, Table()
        self.has = {peer: importlib.util.find_spec(peer) is not None for peer in PEERS}
        self.folder = tempfile.TemporaryDirectory(prefix="bench-tiles-")
        self.texts = args.texts or self.made_up_texts()
        if self.has["torch"]:
            import torch
            torch.set_num_threads(args.threads)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run(self, *words, check=True):
        command = [self.args.bin, *map(str, words), "--threads", str(self.args.threads), "--quiet"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def rows(self, *words):
        return json.loads(self.run("bench", *words, "--json", "--no_machine"))["results"]

    def in_turn(self, runs):
        """runs: name -> a function that gives {key: figure}. The medians over the rounds, by (name, key)."""
        figures = {}
        for _ in range(self.args.rounds):
            for name, run in runs.items():
                for key, figure in run().items():
                    figures.setdefault((name, key), []).append(figure)
        return {key: statistics.median(values) for key, values in figures.items()}

    def made_up_texts(self):
        """192 texts of 5 to 150 common words, mean about 35."""
        draw, path = random.Random(1), self.path("texts.jsonl")
        words = "the of and a to in is it was that for on are with as his they be at this from have or by one had not but what all were when we there can an your which".split()
        with open(path, "w") as file:
            for _ in range(192):
                count = min(150, 5 + int(draw.expovariate(1 / 30)))
                file.write(json.dumps({"text": " ".join(draw.choice(words) for _ in range(count))}) + "\n")
        return path

    # --- the operator ---
    def sdpa(self, length, backward):
        import torch
        query, key, value = (torch.randn(1, 12, length, 64, dtype=torch.bfloat16, requires_grad=backward) for _ in range(3))

        def once():
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value)
            if backward:
                out.backward(torch.ones_like(out))
        once()
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            once()
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times)

    def attention(self):
        def ours(direction, lengths, dtype, kinds, more=()):
            def once():
                variants = [word for kind in kinds for word in ("--attention", kind)]
                rows = self.rows("attention", "--lengths", ",".join(map(str, lengths)), "--direction", direction, "--dtype", dtype, *variants, *more)
                return {(place % len(kinds), row["length"]): row["median_ms"] for place, row in enumerate(rows)}
            return once

        def peer(lengths, backward):
            return lambda: {length: self.sdpa(length, backward) for length in lengths}
        for direction, lengths in (("forward", LENGTHS), ("forward_backward", LENGTHS[:4])):
            backward = direction != "forward"
            kinds = [DENSE] if backward else [DENSE, REFORMER, SORTED]
            runs = {"tiles": ours(direction, lengths, "bfloat16", kinds), "float32": ours(direction, lengths, "float32", [DENSE], WITHOUT_TILES)}
            runs["high"] = ours(direction, lengths, "float32", [DENSE], HIGH)
            if self.has["torch"]:
                runs["torch"] = peer(lengths, backward)
            found = self.in_turn(runs)
            title = "forward and backward" if backward else "forward"
            for length in lengths:
                mine, torch_ms = found["tiles", (0, length)], found.get(("torch", length))
                self.table.times(f"exact bf16 {title}, {length}: ms, PyTorch SDPA bf16", mine, torch_ms, 2.5 if backward else 1.6 if length == 8192 else 1.5)
                self.table.times(f"exact bf16 {title}, {length}: ms, our float32 without tiles", mine, found["float32", (0, length)], 3)
            for length in lengths:
                self.table.times(f"exact float32 high {title}, {length}: ms, our float32 without tiles", found["high", (0, length)], found["float32", (0, length)], 1.8)
            if backward:
                continue
            for kind, name, wanted in ((1, "Reformer r1", [1.7, 2.8, 5, 9, 18]), (2, "sorted SimHash", [1.2, 2, 3.5, 6, 12])):
                for length, least in zip(lengths, wanted):
                    self.table.times(f"{name} bf16, {length}: ms, PyTorch SDPA bf16", found["tiles", (kind, length)], found.get(("torch", length)), least)
                self.table.times(f"{name} bf16, 512: ms, our exact bf16", found["tiles", (kind, 512)], found["tiles", (0, 512)], 1)

    # --- encoders ---
    def ours_on_texts(self, dtype, more=(), model=None):
        return lambda: {"rate": self.rows("model", model or self.args.model, "--input", self.texts, "--dtype", dtype, *more)[0]["tokens_per_second"]}

    def tokenized(self):
        from transformers import AutoTokenizer
        with open(self.texts) as file:
            texts = [json.loads(line)["text"] for line in file if line.strip()]
        return sorted(AutoTokenizer.from_pretrained(self.args.model)(texts, truncation=True, max_length=512)["input_ids"], key=len)

    def batches(self):
        ids = self.tokenized()
        return [ids[at:at + 32] for at in range(0, len(ids), 32)]

    def padded(self, batch):
        import numpy
        width = max(map(len, batch))
        ids = numpy.array([row + [0] * (width - len(row)) for row in batch], dtype=numpy.int64)
        mask = numpy.array([[1] * len(row) + [0] * (width - len(row)) for row in batch], dtype=numpy.int64)
        return {"input_ids": ids, "attention_mask": mask}

    def converted(self, folder):
        """The checkpoint's encoder for OpenVINO, of any batch and length."""
        import openvino
        import torch
        from transformers import AutoModel
        model = AutoModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()

        class Hidden(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids, attention_mask):
                return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        example = {name: torch.ones(2, 7, dtype=torch.long) for name in ("input_ids", "attention_mask")}
        return openvino.convert_model(Hidden(), example_input=example)

    def compiled(self, model, kind):
        import openvino
        settings = {"INFERENCE_PRECISION_HINT": "bf16" if kind == "bf16" else "f32", "INFERENCE_NUM_THREADS": self.args.threads, "PERFORMANCE_HINT": "LATENCY"}
        if kind == "int8":
            settings["INFERENCE_PRECISION_HINT"] = "bf16"
        return openvino.Core().compile_model(model, "CPU", settings)

    def timed(self, encode, batches):
        """Tokens a second of real tokens; encode is warmed up on all shapes first."""
        for batch in batches:
            encode(batch)
        begin = time.perf_counter()
        for batch in batches:
            encode(batch)
        return sum(len(row) for batch in batches for row in batch) / (time.perf_counter() - begin)

    def openvino_runs(self, kinds):
        if not (self.has["openvino"] and self.has["torch"] and self.has["transformers"]):
            return {}
        batches, runs = self.batches(), {}
        for kind in kinds:
            model = self.converted(self.args.model)
            if kind == "int8":
                if not self.has["nncf"]:
                    continue
                import nncf
                model = nncf.quantize(model, nncf.Dataset([self.padded(batch) for batch in batches]), model_type=nncf.ModelType.TRANSFORMER)
            compiled = self.compiled(model, kind)
            runs[f"openvino-{kind}"] = lambda compiled=compiled: {"rate": self.timed(lambda batch: compiled(self.padded(batch)), batches)}
        return runs

    def ctranslate2_runs(self):
        if not (self.has["ctranslate2"] and self.has["transformers"] and self.has["torch"]):
            return {}
        import ctranslate2
        folder = self.path("ctranslate2")
        ctranslate2.converters.TransformersConverter(self.args.model).convert(folder, quantization="int8", force=True)
        encoder = ctranslate2.Encoder(folder, device="cpu", compute_type="int8", intra_threads=self.args.threads)
        batches = self.batches()
        return {"ctranslate2": lambda: {"rate": self.timed(encoder.forward_batch, batches)}}

    def short(self):
        runs = {"bf16": self.ours_on_texts("bfloat16"), "int8": self.ours_on_texts("int8"), **self.openvino_runs(["bf16", "int8"]), **self.ctranslate2_runs()}
        found = {name: rate for (name, _), rate in self.in_turn(runs).items()}
        self.table.rates("short texts, bf16: tokens/s, OpenVINO bf16", found["bf16"], found.get("openvino-bf16"), 1.6)
        self.table.rates("short texts, int8: tokens/s, OpenVINO int8", found["int8"], found.get("openvino-int8"), 1.5)
        self.table.rates("short texts, bf16: tokens/s, CTranslate2 int8", found["bf16"], found.get("ctranslate2"), 2.2)

    def float32(self):
        runs = {"high": self.ours_on_texts("float32", HIGH), "fma": self.ours_on_texts("float32", WITHOUT_TILES), **self.openvino_runs(["f32"])}
        found = {name: rate for (name, _), rate in self.in_turn(runs).items()}
        self.table.rates("short texts, float32 high: tokens/s, OpenVINO float32", found["high"], found.get("openvino-f32"), 3.2)
        self.table.rates("short texts, float32 high: tokens/s, our multiply-add", found["high"], found["fma"], 1.8)
        if self.args.minilm:
            plain, split = self.embeddings(WITHOUT_TILES), self.embeddings(HIGH)
            self.table.at_most("MiniLM, float32 high: largest difference of an embedding", largest_difference(plain, split), 1e-4)
            self.table.row("MiniLM, float32 high: least cosine", None, None, min(map(cosine, plain, split)), 0.999999)

    # --- numbers ---
    def predict(self, model, more=(), threads=None, texts=None):
        words = [self.args.bin, "predict", "--model_name_or_path", model, "--task", "feature-extraction", "--pooling", "mean", "--input", texts or self.texts,
                 "--output", "-", "--quiet", "--threads", str(threads or self.args.threads), *more]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout.decode()

    def embeddings(self, more):
        return [json.loads(line)["embedding"] for line in self.predict(self.args.minilm, more).splitlines()]

    def accuracy(self):
        if not self.args.minilm:
            self.table.row("accuracy of bf16: needs --minilm", None, None, None, None)
            return
        plain = self.embeddings(WITHOUT_TILES)
        for name, more in (("our tiles", ["--bf16"]), ("oneDNN and AVX512_BF16", ["--bf16", *WITHOUT_TILES])):
            cosines = sorted(map(cosine, plain, self.embeddings(more)))
            self.table.row(f"MiniLM bf16 by {name}: least cosine to float32", f"{cosines[0]:.6f}", None, round(cosines[0], 5), 0.99997)  # docs/numerics.md
            self.table.row("  their median", f"{statistics.median(cosines):.6f}", None, round(statistics.median(cosines), 5), 0.99999)

    def alone(self):
        for model in filter(None, (self.args.model, self.args.minilm)):
            def run(dtype):
                return {"ms": self.rows("model", model, "--lengths", 10, "--dtype", dtype, "--runs", 50)[0]["median_ms"]}
            found = self.in_turn({"bf16": lambda: run("bfloat16"), "float32": lambda: run("float32")})
            self.table.times(f"one text of 10 tokens, {os.path.basename(os.path.normpath(model))}: ms, bf16 against float32", found["bf16", "ms"], found["float32", "ms"], 1)

    def bits(self):
        model = self.args.minilm or self.args.model
        for name, more in (("bf16", ["--bf16"]), ("int8", ["--int8"]), ("float32", []), ("float32 high", HIGH)):
            together = self.predict(model, more)
            one_by_one = self.predict(model, [*more, "--batch_tokens", "1"], threads=1)
            many = self.predict(model, more, threads=48)
            self.table.holds(f"{name}: same bits alone, in a batch, 1 to 48 threads", together == one_by_one == many, "DIFFERENT BITS")

    def model(self):
        """The tests that hold the instructions to the model of them, attention in them to its oracle, and products of parts to double."""
        for program, tests in (("kernels_test", "Tile*:Tiles/*:*tiles_*:*TwoParts*:AttentionInParts*"), ("ops_test", "MatmulPrecision*:*LowPrecision*:*SplitProduct*"), ("models_test", "*GoldenTest*")):
            path = os.path.join(os.path.dirname(os.path.abspath(self.args.bin)), program)
            if not os.path.exists(path):
                self.table.row(f"{program}: not built beside the program", None, None, None, None)
                continue
            done = subprocess.run([path, f"--gtest_filter={tests}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            skipped = " (some were skipped)" if "[  SKIPPED ]" in done.stdout else ""
            self.table.holds(f"{program} {tests}{skipped}", done.returncode == 0, "FAILED")

    # --- long sequences, training ---
    def four_layers(self):
        """Four layers of BERT base with a table of 8,192 positions, random weights."""
        from transformers import AutoTokenizer, BertConfig, BertModel
        folder = self.path("four-layers")
        tokenizer = AutoTokenizer.from_pretrained(self.args.model)
        BertModel(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=4, max_position_embeddings=8192)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    def long(self):
        if not (self.has["torch"] and self.has["transformers"]):
            self.table.row("one long sequence: needs torch and transformers", None, None, None, None)
            return
        import numpy
        folder = self.four_layers()

        def ours():
            rows = self.rows("model", folder, "--lengths", ",".join(map(str, LONG)), "--dtype", "bfloat16", "--attention", DENSE, "--attention", REFORMER)
            return {(place % 2, row["length"]): row["tokens_per_second"] for place, row in enumerate(rows)}
        runs = {"ours": ours}
        if self.has["openvino"]:
            compiled = self.compiled(self.converted(folder), "bf16")

            def peer():
                rates = {}
                for length in LONG:
                    ids = numpy.random.default_rng(1).integers(5, 1000, (1, length))
                    rates[length] = self.timed(lambda batch: compiled({"input_ids": numpy.array(batch), "attention_mask": numpy.ones((1, length), dtype=numpy.int64)}), [ids.tolist()])
                return rates
            runs["openvino"] = peer
        found = self.in_turn(runs)
        for kind, name, wanted in ((0, "exact", [1.5, 1.5, 2]), (1, "Reformer", [1.5, 2.2, 6])):
            for length, least in zip(LONG, wanted):
                self.table.rates(f"four layers, one sequence of {length}, {name} bf16: tokens/s, OpenVINO", found["ours", (kind, length)], found.get(("openvino", length)), least)

    def training(self):
        def ours(more=()):
            return lambda: {"ms": self.rows("train", "--lengths", 512, "--batch_size", 8, "--dtype", "bfloat16", "--runs", 3, *more)[0]["median_ms"]}
        runs = {"tiles": ours(), "without": ours(WITHOUT_TILES)}
        if self.has["torch"] and self.has["transformers"]:
            import torch
            from transformers import BertConfig, BertForMaskedLM
            model = BertForMaskedLM(BertConfig()).train()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

            def step():
                ids = torch.randint(5, 30000, (8, 512))
                labels = torch.where(torch.rand(8, 512) < 0.15, ids, -100)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = model(input_ids=ids, labels=labels).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

            def peer():
                begin = time.perf_counter()
                step()
                return {"ms": 1e3 * (time.perf_counter() - begin)}
            step()
            runs["hf"] = peer
        found = self.in_turn(runs)
        self.table.times("training step, BERT base 8 x 512 bf16: ms, ours without tiles", found["tiles", "ms"], found["without", "ms"], 1.8)
        self.table.times("training step, BERT base 8 x 512 bf16: ms, Hugging Face autocast", found["tiles", "ms"], found.get(("hf", "ms")), 5)


def largest_difference(these, those):
    return max(abs(a - b) for x, y in zip(these, those) for a, b in zip(x, y))


def cosine(x, y):
    dot = sum(a * b for a, b in zip(x, y))
    return dot / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True, help="a BERT-base checkpoint")
    parser.add_argument("--minilm", help="a sentence encoder's checkpoint, for accuracy")
    parser.add_argument("--texts", help="JSON lines with a \"text\"")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--anyway", action="store_true", help="also on a processor without tiles: shows that peers and script work, and nothing of tiles")
    args = parser.parse_args()
    if not args.anyway and not processor_has("amx_tile"):
        sys.exit("bench_tiles.py: needs a processor with amx_tile (/proc/cpuinfo), this one has none")
    bench = Bench(args)
    missing = [peer for peer in PEERS if not bench.has[peer]]
    print("peers that are not installed: " + (", ".join(missing) if missing else "none"), flush=True)
    for part in args.only or PARTS:
        try:
            getattr(bench, part)()
        except Exception as error:  # one part that fails leaves the others
            print(f"{part}: {error}", flush=True)


if __name__ == "__main__":
    main()
