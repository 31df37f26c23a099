"""Padding masks as sequences of a packed batch."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Packing:
    """Which rows of a padded batch [batch * length] are tokens, and where sequences begin among these."""

    tokens: Tensor
    """int64 [tokens], ascending."""
    cu_seqlens: Tensor
    """int32 [batch + 1]."""


def packing_of(mask: Tensor) -> Packing:
    """Of a mask [batch, length], True at tokens, which stand in one run in each row. Made once for each mask."""
    known = getattr(mask, "_lshformer_packing", None)
    if known is None:
        known = _make(mask)
        mask._lshformer_packing = known  # type: ignore[attr-defined]
    return known


def _make(mask: Tensor) -> Packing:
    with torch.inference_mode(False), torch.no_grad():
        mask = mask.detach().clone().bool()
        counts = mask.sum(dim=1)
        runs = mask.clone()
        runs[:, 1:] &= ~mask[:, :-1]  # where a run begins
        holes = (runs.sum(dim=1) > 1).nonzero()
        if len(holes):
            row = int(holes[0])
            raise ValueError(
                f"lshformer: attention_mask[{row}] is not padding: its tokens stand in {int(runs[row].sum())} runs, "
                "expected one"
            )
        offsets = torch.zeros(len(counts) + 1, dtype=torch.int32)
        offsets[1:] = counts.cumsum(0)
        return Packing(mask.flatten().nonzero().flatten(), offsets)


def spans_of(mask: Tensor) -> Tensor:
    """int32 [3 * batch + 1]: where in a padded batch tokens and padding begin: before the tokens, the tokens, behind them.

    Of static shape, so that it can be compiled; rows of padding then attend to one another. Where tokens of a row stand in
    several runs an offset is -1, which the operator refuses.
    """
    batch, length = mask.shape
    mask = mask.bool()
    positions = torch.arange(length)
    first = torch.where(mask, positions, length).amin(dim=1)
    last = torch.where(mask, positions, -1).amax(dim=1)
    begin, end = torch.minimum(first, last + 1), last + 1
    begin = torch.where(mask.sum(dim=1) == end - begin, begin, -(length + 1) * batch)
    rows = torch.arange(batch) * length
    spans = torch.stack([rows, rows + begin, rows + end], dim=1).flatten()
    return torch.cat([spans, torch.full((1,), batch * length)]).to(torch.int32)
