"""Attention in PyTorch beside lshformer's: one layer's operator, or a whole model, forward and training step.

    python benchmarks/attention.py                                    the operator, shapes of three models
    python benchmarks/attention.py --model bert-6x384 --lengths 512   a model of random weights, or a folder
    python benchmarks/attention.py --overhead                         one call on 16 tokens

Every line is the least of --repeats runs, all attentions in turn, so that all see the machine alike. `of sdpa` is how
many times as fast as scaled_dot_product_attention. Memory is what the process holds at most beyond what it held before
(Linux). Attentions whose n x n scores would take more than --most_gib are left out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import time

import torch

import lshformer
import lshformer.functional as functional

SPECS = {
    "dense": "dense",
    "clustered": "clustered",
    "bundles": {"type": "clustered", "cluster": 64, "open": 4, "bundle": 64, "window": 0},
}
SHAPES = {"minilm": (12, 32), "long-encoder": (6, 64), "modernbert": (12, 64)}  # heads, head_dim


def held() -> int:
    ctypes.CDLL(None).malloc_trim(0)  # what is free already is not held
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def most_held() -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def measure(calls: dict, repeats: int) -> dict:
    """Seconds and bytes of each call."""
    best = dict.fromkeys(calls, float("inf"))
    memory = {}
    for again in range(repeats + 1):
        for name, call in calls.items():
            if again == 0:  # warms up, and its memory is measured
                before = held()
                pathlib.Path("/proc/self/clear_refs").write_text("5")
                call()
                memory[name] = max(0, most_held() - before)
                continue
            begin = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begin)
    return {name: (best[name], memory[name]) for name in calls}


def show(title: str, measured: dict) -> None:
    sdpa = measured.get("sdpa", (float("nan"), 0))[0]
    for name, (seconds, memory) in measured.items():
        print(f"{title:<40} {name:<12} {seconds * 1e3:>10.3f} ms {sdpa / seconds:>7.2f} of sdpa {memory / 2**20:>9.0f} MiB")


def eager(query, key, value):
    return (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).softmax(-1) @ value


def operator(name: str, length: int, args) -> None:
    heads, head_dim = SHAPES[name]
    packed = [torch.randn(length, heads, head_dim) for _ in range(3)]
    batched = [x.transpose(0, 1)[None] for x in packed]
    grad = torch.randn(length, heads, head_dim)
    kinds = {
        "eager": (lambda *x: eager(*x), batched),
        "sdpa": (torch.nn.functional.scaled_dot_product_attention, batched),
        **{
            kind: (lambda *x, spec=json.dumps(spec): functional.attention(*x, spec=spec), packed)
            for kind, spec in args.specs.items()
        },
    }
    if 3 * heads * length**2 * 4 > args.most_gib * 2**30:
        del kinds["eager"]

    def step(function, inputs):
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = function(*leaves)
        out.backward(grad if out.dim() == 3 else grad.transpose(0, 1)[None])

    def forward(function, inputs):
        with torch.no_grad():
            function(*inputs)

    for title, run in (("forward", forward), ("training step", step)):
        if title.split()[0] not in args.steps:
            continue
        calls = {kind: (lambda f=f, x=x, run=run: run(f, x)) for kind, (f, x) in kinds.items()}
        show(f"{name} {heads}x{head_dim}, {length} tokens, {title}", measure(calls, args.repeats))


def make_model(name: str):
    import transformers

    if pathlib.Path(name).exists():
        return transformers.AutoModel.from_pretrained(name, dtype=torch.float32)
    sizes = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=8192)
    if name == "bert-6x384":  # all-MiniLM-L6-v2's shape
        config = transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, **sizes
        )
    elif name == "modernbert-22x768":
        config = transformers.ModernBertConfig()
    else:
        raise SystemExit(f"--model: expected a folder, bert-6x384 or modernbert-22x768, got {name}")
    return transformers.AutoModel.from_config(config)


def whole_model(name: str, length: int, args) -> None:
    import lshformer.transformers as integration

    model = make_model(name)
    ids = torch.randint(1000, 10000, (1, length))
    heads = model.config.num_attention_heads

    def switch(kind: str) -> None:
        if kind in ("eager", "sdpa"):
            model.set_attn_implementation(kind)
        else:
            integration.use(model, args.specs[kind])

    def forward(kind: str) -> None:
        switch(kind)
        with torch.no_grad():
            model.eval()(input_ids=ids)

    def step(kind: str) -> None:
        switch(kind)
        model.train()(input_ids=ids).last_hidden_state.square().mean().backward()
        model.zero_grad()

    for title, run, kept in (("forward", forward, 3), ("training step", step, 3 * model.config.num_hidden_layers)):
        if title.split()[0] not in args.steps:
            continue
        kinds = ["eager", "sdpa", *args.specs]
        if kept * heads * length**2 * 4 > args.most_gib * 2**30:
            kinds.remove("eager")
        calls = {kind: (lambda kind=kind, run=run: run(kind)) for kind in kinds}
        show(f"{pathlib.Path(name).name}, {length} tokens, {title}", measure(calls, args.repeats))


def overhead(args) -> None:
    packed = [torch.randn(16, 12, 64) for _ in range(3)]
    batched = [x.transpose(0, 1)[None].contiguous() for x in packed]
    grad = torch.randn(16, 12, 64)
    offsets = torch.tensor([0, 16], dtype=torch.int32)
    sdpa = (torch.nn.functional.scaled_dot_product_attention, batched, grad.transpose(0, 1)[None].contiguous())
    ours = (lambda *x: functional.attention(*x, offsets), packed, grad)
    repeats = max(args.repeats, 3000)
    for title, requires_grad, backward in (
        ("forward", False, False), ("forward, gradient wanted", True, False), ("forward and backward", True, True)
    ):
        calls = {}
        for name, (function, inputs, grad_output) in {"sdpa": sdpa, "dense": ours}.items():
            inputs = [x.clone().requires_grad_(requires_grad) for x in inputs]
            if backward:
                calls[name] = lambda f=function, x=inputs, g=grad_output: torch.autograd.grad(f(*x), x, g)
            else:
                calls[name] = lambda f=function, x=inputs: f(*x)
        show(f"16 tokens, 12x64, {title}", measure(calls, repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--model", action="append", default=[], help="a folder, bert-6x384 or modernbert-22x768")
    parser.add_argument("--steps", nargs="+", choices=["forward", "training"], default=["forward", "training"])
    parser.add_argument("--attentions", nargs="+", choices=list(SPECS), default=list(SPECS), help="beside PyTorch's")
    parser.add_argument("--clustered", help="another spec of the column clustered, as JSON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most_gib", type=float, default=4.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--overhead", action="store_true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    specs = SPECS if args.clustered is None else {**SPECS, "clustered": json.loads(args.clustered)}
    args.specs = {kind: lshformer.parse_spec(specs[kind]) for kind in args.attentions}
    print(f"torch {torch.__version__}, lshformer {lshformer.__version__}, {torch.get_num_threads()} threads")
    for kind, spec in args.specs.items():
        print(f"{kind}: {json.dumps(spec)}")
    if args.overhead:
        return overhead(args)
    for length in args.lengths:
        for model in args.model:
            whole_model(model, length, args)
        for shape in args.shapes if not args.model else []:
            operator(shape, length, args)


if __name__ == "__main__":
    main()
