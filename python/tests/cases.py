"""Inputs and specs that several tests go through."""

from __future__ import annotations

import torch

SPECS = {
    "dense": "dense",
    "local": {"type": "local", "window": 5},
    "simhash": {"type": "simhash", "bands": 2},
    "simhash_sorted": {"type": "simhash", "pairs": "sorted", "chunk": 8, "hashes": 2, "window": 2},
    "reformer": {"type": "reformer", "chunk": 8, "rounds": 2},
    "clustered": {"type": "clustered", "cluster": 8, "open": 2},
    "clustered_levels": {"type": "clustered", "cluster": [16, 4], "open": [2, 2], "window": 1},
    "clustered_heads": [{"type": "dense"}, {"type": "clustered", "cluster": 8, "open": 1}],
}

LENGTHS = (40, 0, 1, 23)


def kind(name: str) -> str:
    return name.split("_")[0]


def tensors(name: str, heads: int = 2, head_dim: int = 16, dtype: torch.dtype = torch.float32, lengths=LENGTHS):
    """query, key (None where the kind has none), value and cu_seqlens."""
    tokens = sum(lengths)
    query, key, value = (torch.randn(tokens, heads, head_dim, dtype=dtype) for _ in range(3))
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    return query, None if kind(name) == "reformer" else key, value, offsets
