#!/usr/bin/env python3
"""Makes tests/golden/word_models/bidaf*: small BiDAF models with random weights and what bidaf_torch.py computes from them.

    pip install torch safetensors numpy
    python3 tools/make_bidaf_golden.py [--output tests/golden/word_models]

Every folder holds config.json, model.safetensors, batch.json (the streams of one batch, and labels) and expected.safetensors:
hidden states, logits, the loss of the whole batch and its gradient by every parameter, computed in float64 and rounded once to
float32. Weights are large, so that gates and softmaxes are used beyond their linear part.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from bidaf_torch import CHARACTERS, DEFAULTS, Bidaf

SIZES = {"vocab_size": 60, "embedding_size": 10, "hidden_size": 7, "character_vocab_size": 30, "character_embedding_size": 6,
         "character_filters": 9}
CASES = {
    "bidaf": {},
    "bidaf_paper": {"embedding_map": False, "question_to_context": "maximum", "end_pointer": "attended_start"},
    "bidaf_cs224n": {"character_filters": 0, "second_biases": True, "fixed_word_embeddings": True},
}
CONTEXTS, QUESTIONS = [1, 23, 9, 2], [4, 1, 11, 7]


def make_model(config, seed):
    torch.manual_seed(seed)
    model = Bidaf(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias_hh" in name and not config["second_biases"]:
                continue
            noise = torch.randn_like(parameter) * (1 if "embeddings.weight" in name or "unknown" in name else 0.35)
            parameter.copy_(noise.float().double())  # what the file will hold
        for name in ("word_embeddings", "character_embeddings"):
            if hasattr(model.embeddings, name):
                getattr(model.embeddings, name).weight[0] = 0
    return model


def make_batch(config, rng):
    """Distinct words; two are unknown ones of other letters, one has 16 characters, one 1."""
    distinct = [1, 1, 1] + rng.choice(np.arange(2, config["vocab_size"]), 25, replace=False).tolist()
    characters = [[1]] + [rng.integers(1, config["character_vocab_size"], int(rng.integers(1, CHARACTERS + 1))).tolist() for _ in distinct[1:]]
    characters[4], characters[5] = characters[4][:1], rng.integers(2, config["character_vocab_size"], CHARACTERS).tolist()
    texts = lambda lengths: [[0] + rng.integers(1, len(distinct), n - 1).tolist() for n in lengths]
    batch = {"words": distinct, "characters": characters, "contexts": texts(CONTEXTS), "questions": texts(QUESTIONS)}
    batch["start_positions"] = [0, 5, 9, 1]  # the third is past the end, where it is ignored
    batch["end_positions"] = [0, 8, 4, 1]
    return batch


def padded(batch, texts):
    longest = max(map(len, texts))
    words, characters = torch.zeros(len(texts), longest, dtype=torch.long), torch.zeros(len(texts), longest, CHARACTERS, dtype=torch.long)
    for b, text in enumerate(texts):
        for t, place in enumerate(text):
            words[b, t] = batch["words"][place]
            characters[b, t, :len(batch["characters"][place])] = torch.tensor(batch["characters"][place])
    return {"words": words, "characters": characters}


def loss_of(logits, labels, lengths):
    kept = [b for b, (label, length) in enumerate(zip(labels, lengths)) if label < length]
    return torch.nn.functional.cross_entropy(logits[kept], torch.tensor([labels[b] for b in kept]))


def expected(model, batch):
    states, start, end = model.states(padded(batch, batch["contexts"]), padded(batch, batch["questions"]))
    lengths = [len(text) for text in batch["contexts"]]
    packed = lambda x: torch.cat([row[:n] for row, n in zip(x, lengths)])
    out = {f"hidden_states.{level}": packed(state) for level, state in enumerate(states)}
    out |= {"last_hidden_state": packed(states[-1]), "start_logits": packed(start), "end_logits": packed(end)}
    out["loss"] = (loss_of(start, batch["start_positions"], lengths) + loss_of(end, batch["end_positions"], lengths)) / 2
    out["loss"].backward()
    out |= {f"gradients.{name}": gradient for name, gradient in model.tensors(lambda p: p.grad).items() if gradient is not None}
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/word_models")
    args = parser.parse_args()
    for seed, (name, changes) in enumerate(CASES.items()):
        folder = args.output / name
        folder.mkdir(parents=True, exist_ok=True)
        config = {**DEFAULTS, **SIZES, **changes}
        model = make_model(config, seed)
        batch = make_batch(config, np.random.default_rng(seed))
        save_file(expected(model, batch), folder / "expected.safetensors")
        save_file({key: tensor.detach().float().contiguous().clone() for key, tensor in model.tensors().items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({"architectures": ["BidafForQuestionAnswering"], "model_type": "bidaf", **config}, indent=2) + "\n")
        (folder / "batch.json").write_text(json.dumps(batch) + "\n")
        print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    main()
