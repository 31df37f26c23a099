"""Small models of transformers, of random weights, that several tests go through."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers")

FIVE = int(transformers.__version__.split(".")[0]) >= 5
needs_five = pytest.mark.skipif(not FIVE, reason="BERT-like models of transformers 4 do not use AttentionInterface")

SIZES = dict(
    hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, vocab_size=120,
    max_position_embeddings=700,
)
SPECIAL = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
FAMILIES = {
    "Bert": SIZES,
    "Roberta": dict(SIZES, pad_token_id=0),
    "XLMRoberta": dict(SIZES, pad_token_id=0),
    "Electra": dict(SIZES, embedding_size=32),
    "Albert": dict(SIZES, embedding_size=32),
    "DistilBert": dict(dim=64, n_layers=3, n_heads=4, hidden_dim=96, vocab_size=120, max_position_embeddings=700),
    "ModernBert": dict(
        SIZES, **SPECIAL, cls_token_id=1, sep_token_id=2, local_attention=8, global_attn_every_n_layers=2
    ),
    "NomicBert": SIZES,
    "EuroBert": dict(SIZES, **SPECIAL, mask_token_id=3, num_key_value_heads=2),
    "Camembert": dict(SIZES, pad_token_id=0),
    "Ernie": SIZES,
    "RobertaPreLayerNorm": dict(SIZES, pad_token_id=0),
    "Esm": dict(SIZES, pad_token_id=0, mask_token_id=3, position_embedding_type="rotary"),
    "LayoutLM": SIZES,
}
IN_FOUR = ("Esm", "LayoutLM")
"""Those that go through AttentionInterface in transformers 4.57 too."""
ITSELF = {
    "MPNet": SIZES,
    "MegatronBert": SIZES,
    "RoFormer": dict(SIZES, embedding_size=64),
    "ConvBert": dict(SIZES, embedding_size=64),
    "SqueezeBert": dict(SIZES, embedding_size=64),
    "Deberta": SIZES,
    "DebertaV2": SIZES,
}
"""Those that compute attention themselves in transformers 4.57 and 5."""


def make(family: str, suffix: str = "Model", **more):
    """A small model, exact attention in plain PyTorch; skips where this transformers has no such."""
    config = getattr(transformers, family + "Config", None)
    if config is None:
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    torch.manual_seed(0)
    config = config(**{**(FAMILIES | ITSELF)[family], **more})
    config._attn_implementation = "eager"
    return getattr(transformers, family + suffix)(config).eval()


def batch(lengths=(40, 25, 3), length=40, left=False):
    """Ids and their padding mask."""
    ids = torch.randint(4, 120, (len(lengths), length))
    mask = torch.zeros(len(lengths), length, dtype=torch.long)
    for row, n in zip(mask, lengths):
        row[length - n :] = 1
        if not left:
            row.copy_(row.flip(0))
    return {"input_ids": ids, "attention_mask": mask}


def states(model, inputs):
    """Last hidden states of the tokens."""
    return model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
