#!/usr/bin/env python3
"""Makes tests/golden/word_models/qanet*: small QANets with random weights and what qanet_torch.py computes from them.

    pip install torch safetensors numpy
    python3 tools/make_qanet_golden.py [--output tests/golden/word_models]

Files and batches as of make_bidaf_golden.py. attention.bias, which a softmax takes away, has a gradient of rounding alone and is
left out.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from make_bidaf_golden import expected, make_batch
from qanet_torch import DEFAULTS, Qanet

SIZES = {"vocab_size": 60, "embedding_size": 10, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "character_vocab_size": 30,
         "character_embedding_size": 6, "character_filters": 9}
CASES = {"qanet": {}, "qanet_reversible": {"reversible": True, "fixed_word_embeddings": True}}


def make_model(config, seed):
    torch.manual_seed(seed)
    model = Qanet(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            scale = 1 if "embeddings.weight" in name or "unknown" in name else 0.3
            parameter.copy_((1 + 0.3 * noise if "norm.weight" in name else scale * noise).float())  # what the file will hold
        model.embeddings.word_embeddings.weight[0] = model.embeddings.character_embeddings.weight[0] = 0
    return model


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
        values = {key: tensor for key, tensor in expected(model, batch).items() if not key.endswith("attention.bias") or "context_query" in key}
        save_file(values, folder / "expected.safetensors")
        save_file({key: tensor.detach().float().contiguous().clone() for key, tensor in model.tensors().items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({"architectures": ["QanetForQuestionAnswering"], "model_type": "qanet", **config}, indent=2) + "\n")
        (folder / "batch.json").write_text(json.dumps(batch) + "\n")
        print(name, values["loss"].item(), sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    main()
