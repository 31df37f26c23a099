"""LSH attention in transformers models, through AttentionInterface.

    import lshformer.transformers
    lshformer.transformers.use(model, "clustered")     # or a spec as an object, or a list with one for each layer
    model.save_pretrained(folder)                      # config.json keeps it, as "attention"

Importing registers "lshformer" with transformers' attention functions and with those that make masks; without the
second, transformers would silently drop padding. Padded batches are packed inside, so that padding costs nothing, and
hidden states of padding are those of a token that sees nothing. Layers with a sliding window keep it, exactly.

What the kernels do not compute is refused and never approximated: causal models, cross-attention, masks that are not
padding, soft caps, position biases, attention sinks, attention probabilities as an output.
"""

from __future__ import annotations

import importlib.util
import math
from typing import Any, Optional

import torch
from torch import Tensor, nn

try:
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "transformers":
        raise
    raise ImportError(
        "lshformer: needs transformers 4.57 or newer, and "
        + ("there is none" if importlib.util.find_spec("transformers") is None else "this one is older")
        + ": pip install 'transformers>=5'"
    ) from None

from lshformer import _models, functional
from lshformer._packing import Packing, packing_of, spans_of
from lshformer.specs import Spec

__all__ = ["NAME", "use"]

NAME = "lshformer"
"""What config._attn_implementation says of a model whose attention this is."""


def use(model: Any, attention: Optional[Spec] = None) -> Any:
    """Gives a transformers model exact or LSH attention of lshformer; returns the model.

    Args:
        model: A PreTrainedModel on the CPU: an encoder that goes through AttentionInterface. Also one read from a folder
            that `lshformer convert` wrote: its stored directions are read from there.
        attention: A spec for all layers, a list with one for each, or JSON text. None: what config.json says as
            "attention", else exact attention. Layers with a sliding window keep it whatever is said here. With the same
            weights "dense" computes what the model did before.

    Raises:
        ValueError: The spec does not parse; the model is causal, an encoder-decoder, or of an architecture that does not
            go through AttentionInterface.
    """
    return _models.use(model, attention, NAME)


def _refuse(what: str) -> None:
    raise ValueError(f"lshformer: {what}; use another attention implementation for this model")


_UNSUPPORTED = {
    "softcap": "scores with a soft cap are not computed",
    "s_aux": "attention sinks are not computed",
    "sinks": "attention sinks are not computed",
    "position_bias": "scores with a position bias are not computed",
    "head_mask": "masks of heads are not applied",
    "cu_seq_lens_q": "sequences that the caller packed are not told apart",
    "seq_idx": "sequences that the caller packed are not told apart",
}
# What models hand down that is none of attention's business.
_HARMLESS = {"position_ids", "cache_position", "position_embeddings", "num_items_in_batch", "token_type_ids", "labels"}


def _check_options(name: str, options: dict[str, Any]) -> None:
    """Of what a model hands its attention, nothing that changes it is passed over."""
    if options.get("output_attentions"):
        _refuse("attention probabilities are never formed, so output_attentions cannot have them")
    for option, value in options.items():
        if value is None or option in _HARMLESS:
            continue
        if option in _UNSUPPORTED:
            _refuse(f"{name}: {_UNSUPPORTED[option]}")
        if isinstance(value, (Tensor, float)):
            _refuse(f"{name} hands its attention {option!r}, which is not known here")


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    sliding_window: Optional[int] = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer.

    query, key, value: [batch, heads, length, head_dim], of fewer heads where a key serves several queries'.
    attention_mask: None, or the padding mask: [batch, length], True at tokens, or [batch, 1, 1, length], as it is added to
    scores. Returns [batch, length, heads, head_dim].
    """
    name = type(module).__name__
    if is_causal if is_causal is not None else _models.is_causal(module):
        _refuse(f"{name} is causal, and there is no causal attention here")
    if key.shape[2] != query.shape[2]:
        _refuse(f"{name} has {query.shape[2]} queries and {key.shape[2]} keys: cross-attention or a cache")
    if value.shape != key.shape:
        _refuse(f"{name} has keys of shape {list(key.shape)} and values of {list(value.shape)}")
    _check_options(name, kwargs)
    layer = _models.layer_of(module, sliding_window)
    head_dim = query.shape[3]
    if key.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    if scaling is not None and not math.isclose(scaling * math.sqrt(head_dim), 1.0, rel_tol=1e-6):
        query = query * (scaling * math.sqrt(head_dim))
    seed = int(torch.randint(0, 2**62, ()).item()) if dropout > 0 else 0
    out = _attend(query, key, value, attention_mask, layer, dropout, seed)
    return out, None


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], layer: _models.Layer, dropout: float, seed: int
) -> Tensor:
    batch, heads, length, head_dim = query.shape
    inputs = (query, value) if layer.shares_keys else (query, value, key)
    rows = [x.transpose(1, 2).reshape(batch * length, heads, head_dim) for x in inputs]
    rows = [x if x.stride(2) == 1 or head_dim == 1 else x.contiguous() for x in rows]
    packing: Optional[Packing] = None
    if mask is None:
        offsets = functional.alike(batch, length)
    elif torch.compiler.is_compiling():
        offsets = spans_of(mask, batch, length)  # padding is sequences of its own: no shape depends on the mask
    else:
        packing = packing_of(mask, batch, length)
        offsets = functional.alike(batch, length) if packing is None else packing.cu_seqlens
        rows = rows if packing is None else [x.index_select(0, packing.tokens) for x in rows]
    out, _ = functional.call(
        rows[0], None if layer.shares_keys else rows[2], rows[1], offsets, layer.spec, seed, dropout, layer.index, 0,
        layer.key_directions, layer.query_directions,
    )
    if packing is not None:
        out = out.new_zeros((batch * length, heads, head_dim)).index_copy(0, packing.tokens, out)
    return out.view(batch, length, heads, head_dim)


def padding_mask(
    *args: Any,
    kv_length: int = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Optional[Tensor] = None,
    **kwargs: Any,
) -> Optional[Tensor]:
    """What transformers calls to make a model's mask: the 2-D padding mask, or None where nothing is padded.

    Of the pattern that transformers wants (mask_function) all keys and a window on both sides are known, which layers
    hear of otherwise; any other is refused.
    """
    if not torch.compiler.is_compiling():
        why = _models.why_not_padding(mask_function)
        if why:
            _refuse(why)
    elif kwargs.get("use_vmap"):
        # Patterns cannot be looked into here. Those that a caller overlays come with this; that a model is causal its
        # modules say too.
        _refuse("the model asks for a mask that is not padding")
    if attention_mask is None:
        return None
    if attention_mask.dim() != 2 or (kv_length and attention_mask.shape[1] != kv_length):
        _refuse(f"a mask of shape {list(attention_mask.shape)} is not padding of {kv_length} tokens")
    if torch.compiler.is_compiling():
        return attention_mask.bool()
    if bool(attention_mask.all()):
        return None
    with torch.inference_mode(False):  # our own, which no other writes to: layers pack by it once
        return attention_mask.to(torch.bool, copy=True)


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, padding_mask)
