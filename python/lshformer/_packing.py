"""Padding masks as sequences of a packed batch."""

from __future__ import annotations

import dataclasses
from typing import Optional

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Packing:
    """Which rows of a padded batch [batch * length] are tokens, and where sequences begin among these."""

    tokens: Tensor
    """int64 [tokens], ascending."""
    cu_seqlens: Tensor
    """int32 [batch + 1]."""


def keys_of(mask: Tensor, batch: int, length: int) -> Tensor:
    """The keys that a padding mask shows: bool [batch, length], True at tokens.

    mask: [batch, length]; or the same for every head and query, [batch, 1, 1, length], bool or, as it is added to scores,
    0 at tokens and the type's least number at padding. ValueError where it is not padding by its shape. Numbers between
    are not looked for here: `packing_of` and `spans_of` do.
    """
    if mask.dim() == 2 and mask.shape == (batch, length):
        return mask if mask.dtype == torch.bool else mask != 0
    if mask.dim() == 4 and mask.shape == (batch, 1, 1, length):
        if mask.dtype == torch.bool:
            return mask[:, 0, 0]
        if mask.is_floating_point():
            return mask[:, 0, 0] == 0
    raise ValueError(
        f"lshformer: a mask of shape {list(mask.shape)} ({str(mask.dtype).removeprefix('torch.')}) is not padding, "
        f"expected [{batch}, {length}]; use another attention implementation for this model"
    )


def _neither(mask: Tensor) -> Tensor:
    """bool [batch]: where a mask that is added to scores has numbers that neither show nor hide a key."""
    if mask.dim() != 4 or not mask.is_floating_point():
        return torch.zeros(mask.shape[0], dtype=torch.bool)
    added = mask[:, 0, 0]
    return ((added != 0) & ~(added <= -1e4)).any(dim=1)


def packing_of(mask: Tensor, batch: int, length: int) -> Optional[Packing]:
    """Of a mask as `keys_of` takes it, whose tokens stand in one run in each row; None where all are tokens.

    Made once for each mask, and again when it was written to.
    """
    if mask.is_inference():  # nobody counts what is written to it
        return _make(mask, batch, length)
    key = (mask._version, batch, length)
    known = getattr(mask, "_lshformer_packing", None)
    if known is None or known[0] != key:
        known = key, _make(mask, batch, length)
        mask._lshformer_packing = known  # type: ignore[attr-defined]
    return known[1]


def _make(mask: Tensor, batch: int, length: int) -> Optional[Packing]:
    with torch.inference_mode(False), torch.no_grad():
        mask = mask.detach().clone()
        keys = keys_of(mask, batch, length)
        odd = _neither(mask).nonzero()
        if len(odd):
            raise ValueError(
                f"lshformer: attention_mask[{int(odd[0])}] is not padding: it adds other numbers to scores than 0 and "
                "the least"
            )
        if bool(keys.all()):
            return None
        counts = keys.sum(dim=1)
        runs = keys.clone()
        runs[:, 1:] &= ~keys[:, :-1]  # where a run begins
        holes = (runs.sum(dim=1) > 1).nonzero()
        if len(holes):
            row = int(holes[0])
            raise ValueError(
                f"lshformer: attention_mask[{row}] is not padding: its tokens stand in {int(runs[row].sum())} runs, "
                "expected one"
            )
        offsets = torch.zeros(batch + 1, dtype=torch.int32)
        offsets[1:] = counts.cumsum(0)
        return Packing(keys.flatten().nonzero().flatten(), offsets)


def spans_of(mask: Tensor, batch: int, length: int) -> Tensor:
    """int32 [3 * batch + 1]: where in a padded batch tokens and padding begin: before the tokens, the tokens, behind them.

    Of static shape, so that it can be compiled; rows of padding then attend to one another. Where a mask is not padding
    an offset is below 0, which the operator refuses.
    """
    keys = keys_of(mask, batch, length)
    positions = torch.arange(length)
    first = torch.where(keys, positions, length).amin(dim=1)
    last = torch.where(keys, positions, -1).amax(dim=1)
    begin, end = torch.minimum(first, last + 1), last + 1
    is_padding = (keys.sum(dim=1) == end - begin) & ~_neither(mask)
    begin = torch.where(is_padding, begin, -(length + 1) * batch)
    rows = torch.arange(batch) * length
    spans = torch.stack([rows, rows + begin, rows + end], dim=1).flatten()
    return torch.cat([spans, torch.full((1,), batch * length)]).to(torch.int32)
