"""What the operators of the extension lack for autograd, torch.compile, torch.export and autocast."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

operator = torch.ops.lshformer.attention.default
operator_backward = torch.ops.lshformer.attention_backward.default
below_autograd = torch._C._AutoDispatchBelowAutograd

_ACCEPTED = (torch.float32, torch.bfloat16, torch.float64)


def _check_device(name: str, tensor: Optional[Tensor], query: Tensor) -> None:
    if tensor is None:
        return
    if tensor.device.type not in ("cpu", "meta"):
        raise RuntimeError(
            f'attention: tensor "{name}" is on {tensor.device}, expected one on the CPU: there are no kernels for other '
            "devices"
        )
    if tensor.device.type != query.device.type:  # else what comes out would be memory that nobody wrote to
        raise RuntimeError(f'attention: tensor "{name}" is on {tensor.device}, expected {query.device} as "query"')


def _check(query: Tensor, key: Optional[Tensor], value: Tensor) -> None:
    """What can be told without numbers; the kernels check the rest."""
    if query.dtype not in _ACCEPTED:
        raise RuntimeError(f'attention: tensor "query" is {query.dtype}, expected float32, bfloat16 or float64')
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor is None:
            continue
        _check_device(name, tensor, query)
        if tensor.dim() != 3:
            raise RuntimeError(
                f'attention: tensor "{name}" has shape {list(tensor.shape)}, expected [tokens, heads, head_dim]'
            )
        if tensor.dtype != query.dtype:
            raise RuntimeError(f'attention: tensor "{name}" is {tensor.dtype}, expected {query.dtype}')
        torch._check(
            all(a == b for a, b in zip(tensor.shape, query.shape)),
            lambda: f'attention: tensor "{name}" has another shape than "query"',
        )


@torch.library.register_fake("lshformer::attention")
def _fake_attention(
    query: Tensor,
    key: Optional[Tensor],
    value: Tensor,
    cu_seqlens: Tensor,
    spec: str,
    seed: int = 0,
    dropout: float = 0.0,
    layer: int = 0,
    step: int = 0,
    key_directions: Optional[Tensor] = None,
    query_directions: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    _check(query, key, value)
    for name, tensor in (
        ("cu_seqlens", cu_seqlens), ("key_directions", key_directions), ("query_directions", query_directions)
    ):
        _check_device(name, tensor, query)
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    return query.new_empty(query.shape), query.new_empty(query.shape[:2], dtype=wide)


@torch.library.register_fake("lshformer::attention_backward")
def _fake_backward(
    grad_output: Tensor, query: Tensor, key: Optional[Tensor], value: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    _check(query, key, value)
    for name, tensor in zip(("grad_output", "output", "lse", "cu_seqlens"), (grad_output, *rest)):
        _check_device(name, tensor, query)
    shape = (0,) if key is None else query.shape
    return query.new_empty(query.shape), query.new_empty(shape), query.new_empty(query.shape)


@torch.library.register_fake("lshformer::plan")
def _fake_plan(query: Tensor, key: Optional[Tensor], cu_seqlens: Tensor, *rest: Any) -> Tensor:
    _check(query, key, query)
    _check_device("cu_seqlens", cu_seqlens, query)
    return query.new_empty((4,), dtype=torch.int64)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, cu_seqlens, spec, seed, dropout, layer, step, key_directions, query_directions = inputs
    out, lse = output
    for name, tensor in (("key_directions", key_directions), ("query_directions", query_directions)):
        if tensor is not None and tensor.requires_grad:
            raise RuntimeError(f'attention: tensor "{name}" requires a gradient, and sorting along it has none')
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, cu_seqlens, key_directions, query_directions, out, lse)
    ctx.settings = (spec, seed, dropout, layer, step)


def _backward(ctx: Any, grad_output: Optional[Tensor], grad_lse: Optional[Tensor]) -> tuple[Any, ...]:
    query, key, value, cu_seqlens, key_directions, query_directions, out, lse = ctx.saved_tensors
    nothing = (None,) * 8
    if grad_output is None:
        return (None, None, None, *nothing)
    if grad_output.shape[-1] > 1 and grad_output.stride(-1) != 1:
        grad_output = grad_output.contiguous()
    spec, seed, dropout, layer, step = ctx.settings
    grad_query, grad_key, grad_value = operator_backward(
        grad_output, query, key, value, out, lse, cu_seqlens, spec, seed, dropout, layer, step, key_directions,
        query_directions,
    )
    return (grad_query, None if key is None else grad_key, grad_value, *nothing)


torch.library.register_autograd("lshformer::attention", _backward, setup_context=_setup_context)


class Attention(torch.autograd.Function):
    """The operator with the gradient registered above, by a way that is half as long: the dispatcher calls Python for
    each of its steps. Only where nothing else wants to see the operator: no autocast, no compiler, no functorch."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Optional[Tensor], value: Tensor, rest: tuple[Any, ...]
    ) -> tuple[Tensor, Tensor]:
        with below_autograd():
            output = operator(query, key, value, *rest)
        _setup_context(ctx, (query, key, value, *rest), output)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], grad_lse: Optional[Tensor]) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # gradients of the gradients are wanted
            return (*_backward(ctx, grad_output, grad_lse)[:3], None)
        with below_autograd():
            return (*_backward(ctx, grad_output, grad_lse)[:3], None)


def _no_second_backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    raise RuntimeError("attention: gradients of gradients are not computed")


torch.library.register_autograd("lshformer::attention_backward", _no_second_backward)

_library = torch.library.Library("lshformer", "FRAGMENT")
_below_autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def _autocast(query: Tensor, key: Optional[Tensor], value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Queries, keys and values in autocast's type, as scaled_dot_product_attention has them; directions as they are."""
    dtype = torch.get_autocast_dtype("cpu")

    def cast(tensor: Optional[Tensor]) -> Optional[Tensor]:
        return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)

    with torch._C._ExcludeDispatchKeyGuard(_below_autocast):
        return torch.ops.lshformer.attention(cast(query), cast(key), cast(value), *args, **kwargs)


_library.impl("attention", _autocast, "AutocastCPU")
