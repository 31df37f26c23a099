#!/usr/bin/env python3
"""Draws which pairs each attention mode computes for one sentence: docs/pictures/pairs_*.svg.

    python3 tools/draw_attention_pairs.py --bin build/release/bin/lshformer --model DIR [--text "..."] --output_dir docs/pictures

The queries and keys are those of the first head of the first layer of DIR (a BERT folder, for example one that `lshformer
quickstart` leaves); `lshformer attention` hashes them, and the collisions of its buckets are drawn. Needs numpy and safetensors.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

MODES = {  # file name: (title, arguments, fill, triangle)
    "dense": ("dense: every pair", ["--attention", "dense"], None, False),
    "simhash_zero": ("simhash, fill zero: unseen pairs keep score 0", ["--attention", "simhash"], "score 0", False),
    "simhash_mean": ("simhash, fill mean: unseen pairs get the mean key's score", ["--attention", "simhash", "--lsh_fill", "mean"],
                     "mean key's score", False),
    "simhash_none": ("simhash, fill none: unseen pairs take no part", ["--attention", "simhash", "--lsh_fill", "none"], None, False),
    "simhash_reference": ("simhash, pairs reference: the upper triangle, mirrored",
                          ["--attention", "simhash", "--lsh_pairs", "reference"], "score 0", True),
    "reformer": ("reformer, one round, chunk 4: its own chunk of the sorted order and the one before",
                 ["--attention", "reformer", "--lsh_rounds", "1", "--lsh_chunk", "4", "--lsh_buckets", "8"], None, False),
}
CHUNK = 4
COMPUTED, MIRRORED, FILLED, ABSENT = "#3f74c9", "#9dbcf0", "#e9ecf1", "#ffffff"


def run(binary, *arguments):
    subprocess.run([binary, *map(str, arguments)], check=True)


def chunk_neighbours(buckets):
    """[n, n]: whether a query sees a key. Sorted by (bucket, position), each chunk sees itself and the one before, around the circle."""
    n = len(buckets)
    chunk = np.empty(n, int)
    chunk[np.argsort(buckets, kind="stable")] = np.arange(n) // CHUNK
    chunks = -(-n // CHUNK)
    return (chunk[:, None] - chunk[None, :]) % chunks <= 1


def cells(title, arguments, fill, triangle, binary, work, tokens):
    out = work / "out.safetensors"
    run(binary, "attention", "--input", work / "in.safetensors", "--output", out, *arguments)
    n = len(tokens)
    if "dense" in arguments:
        return [[COMPUTED] * n for _ in range(n)], n * n
    result = load_file(out)
    if "reformer" in arguments:
        seen = chunk_neighbours(result["query_buckets"][0, 0])
        return [[MIRRORED if i == j else COMPUTED if seen[i, j] else ABSENT for j in range(n)] for i in range(n)], int(seen.sum())
    query, key = result["query_buckets"][0, 0], result["key_buckets"][0, 0]
    collide = query[:, None] == key[None, :]
    rest = FILLED if fill else ABSENT
    if not triangle:
        return [[COMPUTED if collide[i, j] else rest for j in range(n)] for i in range(n)], int(collide.sum())
    upper = np.triu(collide)
    return [[COMPUTED if upper[i, j] else MIRRORED if upper[j, i] else rest for j in range(n)] for i in range(n)], int(upper.sum())


def first_head(model, name, states):
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    weights = load_file(pathlib.Path(model) / "model.safetensors")
    prefix = f"bert.encoder.layer.0.attention.self.{name}."
    values = states @ weights[prefix + "weight"].T + weights[prefix + "bias"]
    return np.ascontiguousarray(values[:, None, :head_dim], dtype=np.float32)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def draw(path, title, colours, computed, tokens, fill, triangle):
    n, size, left, top = len(tokens), 26, 92, 116
    width, height = left + n * size + 24, top + n * size + 74
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(title)}">',
             "<style>svg{background:#fff;font-family:system-ui,sans-serif}text{font-size:12px;fill:#344054}.t{font-size:14px;font-weight:600}</style>",
             f'<text x="12" y="22" class="t">{escape(title)}</text>']
    for i, token in enumerate(tokens):
        parts.append(f'<text x="{left - 8}" y="{top + i * size + 17}" text-anchor="end">{escape(token)}</text>')
        x = left + i * size + 16
        parts.append(f'<text x="{x}" y="{top - 8}" transform="rotate(-55 {x} {top - 8})">{escape(token)}</text>')
        for j, colour in enumerate(colours[i]):
            parts.append(f'<rect x="{left + j * size}" y="{top + i * size}" width="{size - 2}" height="{size - 2}" rx="3" '
                         f'fill="{colour}" stroke="#d0d5dd"/>')
    y = top + n * size + 18
    legend = [(COMPUTED, "computed: q·k")] + ([(MIRRORED, "itself: a last resort")] if title.startswith("reformer") else []) + ([(MIRRORED, "mirrored")] if triangle else []) + ([(FILLED, fill)] if fill else [])
    x = left
    for colour, text in legend:
        parts.append(f'<rect x="{x}" y="{y}" width="13" height="13" rx="2" fill="{colour}" stroke="#d0d5dd"/><text x="{x + 19}" y="{y + 11}">{text}</text>')
        x += 40 + 7 * len(text)
    parts.append(f'<text x="{left}" y="{y + 38}">{computed} of {n * n} products computed. Rows: queries, columns: keys.</text></svg>')
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", default="There is a chronic medicine at the small clinic. Henry dresses his needle during the winter.")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.output_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        line = work / "line.jsonl"
        line.write_text(json.dumps({"text": args.text}) + "\n")
        run(args.bin, "tokenizer", "encode", "--tokenizer", args.model, "--jsonl", "--input", line, "--output", work / "tokens.jsonl")
        tokens = json.loads((work / "tokens.jsonl").read_text())["tokens"]
        run(args.bin, "inspect", "--model_name_or_path", args.model, "--input", line, "--output", work / "states.safetensors", "--hidden_states")
        states = load_file(work / "states.safetensors")["hidden_states.0"]
        query, key = (first_head(args.model, name, states) for name in ("query", "key"))
        save_file({"query": query, "key": key, "value": key}, work / "in.safetensors")
        for name, (title, arguments, fill, triangle) in MODES.items():
            colours, computed = cells(title, arguments, fill, triangle, args.bin, work, tokens)
            draw(args.output_dir / f"pairs_{name}.svg", title, colours, computed, tokens, fill, triangle)


if __name__ == "__main__":
    main()
