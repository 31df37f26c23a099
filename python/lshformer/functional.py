"""The attention operator on arrays of torch or numpy, packed: sequences one after another, no padding.

Query i of a sequence gets sum_j exp(s_ij - lse_i) value_j with s_ij = query_i . key_j / sqrt(head_dim), over the keys j
of its sequence that the kind of attention shows it; lse_i = log sum_j exp(s_ij), natural logarithms.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Optional, Union

import torch
from torch import Tensor

from lshformer._operators import Attention, below_autograd, operator
from lshformer.specs import Spec, spec_text

__all__ = ["Counts", "attention", "plan"]

Array = Any  # a torch.Tensor, or what torch.as_tensor makes one of: a numpy array


@dataclasses.dataclass(frozen=True)
class Counts:
    """What one forward of attention computes."""

    pairs_total: int
    """heads times the sum of squared lengths: the pairs of exact attention."""
    pairs_computed: int
    """Distinct (query, key) whose product was needed, and centroids that a query was scored with."""
    hash_flops: int
    """Floating-point operations that choosing the pairs takes."""
    attention_flops: int
    """Floating-point operations of scores and values, all that the tiles visit."""

    @property
    def share(self) -> float:
        """pairs_computed / pairs_total; 0 of no pairs."""
        return self.pairs_computed / self.pairs_total if self.pairs_total else 0.0


def attention(
    query: Array,
    key: Optional[Array],
    value: Array,
    cu_seqlens: Optional[Array] = None,
    spec: Spec = "dense",
    *,
    dropout: float = 0.0,
    seed: int = 0,
    layer: int = 0,
    step: int = 0,
    key_directions: Optional[Array] = None,
    query_directions: Optional[Array] = None,
    return_lse: bool = False,
) -> Union[Array, tuple[Array, Array]]:
    """Attention of packed sequences, exact or LSH, with gradients for torch tensors.

    Args:
        query: [tokens, heads, head_dim] float32, bfloat16 or float64, head_dim up to 256. Tokens and heads may lie
            anywhere (views are read where they are); a head's numbers lie side by side. float64 is the readable
            reference, in time and memory of tokens squared.
        key: As query; None for Reformer, whose keys are its queries.
        value: As query.
        cu_seqlens: int32 [sequences + 1], ascending from 0 to tokens: where sequences begin and end. None: one sequence.
        spec: Which attention: a kind's name, an object with its keys, or JSON text.
        dropout: Probability, in [0, 1), that a pair's weight is dropped.
        seed: With step and layer, of dropout's mask. Hyperplanes, rotations and directions are drawn from the spec's own
            seed, layer and step.
        layer: Which layer of a model this is.
        step: The training step; 0 outside of training.
        key_directions: float32 [heads, head_dim, depth]: what clustered attention sorts keys along, before drawn ones.
        query_directions: The same of queries.
        return_lse: Whether to return lse too.

    Returns:
        The output, of query's shape and type, contiguous; with return_lse also lse [tokens, heads], without gradient.

    Raises:
        ValueError: The spec does not parse, in the program's words.
        RuntimeError: A tensor is of a wrong type, shape, stride or device; the line names it.
    """
    arrays = not isinstance(query, Tensor)
    of_query, of_value = _tensor(query), _tensor(value)
    assert of_query is not None and of_value is not None
    out, lse = call(
        of_query, _tensor(key), of_value, _offsets(cu_seqlens, of_query), spec_text(spec), seed, dropout, layer, step,
        _tensor(key_directions), _tensor(query_directions),
    )
    if arrays:
        return (out.numpy(), lse.numpy()) if return_lse else out.numpy()
    return (out, lse) if return_lse else out


def call(
    query: Tensor,
    key: Optional[Tensor],
    value: Tensor,
    cu_seqlens: Tensor,
    spec: str,
    seed: int,
    dropout: float,
    layer: int,
    step: int,
    key_directions: Optional[Tensor],
    query_directions: Optional[Tensor],
) -> tuple[Tensor, Tensor]:
    """torch.ops.lshformer.attention, by the shortest way that gives the same."""
    rest = (cu_seqlens, spec, seed, dropout, layer, step, key_directions, query_directions)
    if (
        torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or torch._C._are_functorch_transforms_active()
    ):
        return operator(query, key, value, *rest)
    if torch.is_grad_enabled() and (
        query.requires_grad
        or value.requires_grad
        or (key is not None and key.requires_grad)
        or (key_directions is not None and key_directions.requires_grad)
        or (query_directions is not None and query_directions.requires_grad)
    ):
        return Attention.apply(query, key, value, rest)
    with below_autograd():
        return operator(query, key, value, *rest)


def plan(
    query: Array,
    key: Optional[Array],
    cu_seqlens: Optional[Array] = None,
    spec: Spec = "dense",
    *,
    layer: int = 0,
    step: int = 0,
    key_directions: Optional[Array] = None,
    query_directions: Optional[Array] = None,
) -> Counts:
    """What `attention` of these arguments would compute, counted; no scores are."""
    of_query = _tensor(query)
    assert of_query is not None
    counts = torch.ops.lshformer.plan(
        of_query, _tensor(key), _offsets(cu_seqlens, of_query), spec_text(spec), layer, step, _tensor(key_directions),
        _tensor(query_directions),
    )
    return Counts(*counts.tolist())


def alike(batch: int, length: int) -> Tensor:
    """cu_seqlens of so many sequences of one length; not to be written to."""
    if torch.compiler.is_compiling():
        return torch.arange(batch + 1, dtype=torch.int32) * length
    return _alike(batch, length)


@functools.lru_cache(maxsize=64)
def _alike(batch: int, length: int) -> Tensor:
    with torch.inference_mode(False):
        return torch.arange(batch + 1, dtype=torch.int32) * length


def _tensor(array: Optional[Array]) -> Optional[Tensor]:
    if array is None or isinstance(array, Tensor):
        return array
    import numpy as np

    array = np.asarray(array)
    # torch warns of arrays that it must not write to. Nothing here writes to inputs.
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _offsets(cu_seqlens: Optional[Array], query: Tensor) -> Tensor:
    if cu_seqlens is None:
        return alike(1, query.shape[0])
    offsets = _tensor(cu_seqlens if not isinstance(cu_seqlens, (list, tuple)) else torch.tensor(cu_seqlens))
    assert offsets is not None
    if offsets.dtype != torch.int64:
        return offsets
    if not torch.compiler.is_compiling() and offsets.numel() and int(offsets.abs().max()) >= 2**31:
        raise ValueError(f'attention: tensor "cu_seqlens" has an offset of {int(offsets.abs().max())}, expected int32')
    return offsets.to(torch.int32)
