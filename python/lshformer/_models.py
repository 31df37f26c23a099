"""Which attention each layer of a transformers model has: chosen, refused, kept in the config and beside the weights."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import pathlib
import threading
from typing import Any, Iterator, Optional

import torch
from torch import Tensor, nn

from lshformer import specs
from lshformer.specs import Spec

DIRECTIONS = ("key_directions", "query_directions")


@dataclasses.dataclass
class Layer:
    """What one call of attention computes."""

    spec: str
    """JSON text."""
    index: int = 0
    """Which layer of the model it is: what is drawn is drawn for it."""
    window: Optional[int] = None
    """Of local attention: neighbours on each side."""
    shares_keys: bool = False
    """Whether queries are the keys, as in Reformer; a model's own keys are then not looked at, as in the program."""
    directions: Optional[nn.Module] = None
    """Holds the stored directions as buffers; not a part of the module that computes attention."""

    @property
    def key_directions(self) -> Optional[Tensor]:
        return None if self.directions is None else self.directions.key_directions.float()

    @property
    def query_directions(self) -> Optional[Tensor]:
        return None if self.directions is None else self.directions.query_directions.float()


class Visits:
    """Layers of a module that several share (ALBERT's), one after another in every forward of the model; of each thread
    by itself."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.next: dict[int, int] = {}

    def begin(self, *unused: Any) -> None:
        self.next[_thread()] = 0

    def layer(self) -> Layer:
        at = self.next.get(_thread(), 0)
        if at == len(self.layers):
            if all(layer == dataclasses.replace(self.layers[0], index=layer.index) for layer in self.layers):
                if _kind(json.loads(self.layers[0].spec)) in ("dense", "local"):
                    return self.layers[0]  # which of them it is makes no difference
            raise RuntimeError(
                f"lshformer: more than the model's {len(self.layers)} layers in one forward: layers that share weights "
                "are told apart by their order, which gradient checkpointing changes"
            )
        self.next[_thread()] = at + 1
        return self.layers[at]


def _thread() -> int:
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


class Held:
    """A module's layers, hidden from nn.Module: they are no parts of it."""

    def __init__(self, layer: Optional[Layer] = None, visits: Optional[Visits] = None) -> None:
        self.layer = layer
        self.visits = visits


_HELD = "_lshformer"


def use(model: Any, attention: Optional[Spec], name: str) -> Any:
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"lshformer: expected a transformers model, got {type(model).__name__}")
    modules = _attention_modules(model)
    config = model.config
    wanted = specs.parse_layers(_of_config(config) if attention is None else attention)
    count = _layer_count(config, modules)
    if len(wanted) not in (1, count):
        raise ValueError(f"lshformer: {len(wanted)} specs for {count} layers")
    layers = _with_windows(config, wanted * count if len(wanted) == 1 else wanted)
    stored = _stored_directions(model, layers)
    held = [_layer(layer, at, stored.get(at)) for at, layer in enumerate(layers)]
    _hold(model, modules, held)
    config.attention = layers[0] if all(layer == layers[0] for layer in layers) and _is_plain(layers[0]) else layers
    model.set_attn_implementation(name)
    for module in modules:
        if module.config._attn_implementation != name:
            raise ValueError(f"lshformer: {type(model).__name__} did not take the attention implementation {name!r}")
    return model


def layer_of(module: nn.Module, sliding_window: Optional[int]) -> Layer:
    """What `use` gave the module; of a model that it was not called for, exact attention."""
    held = getattr(module, _HELD, None)
    if held is not None:
        layer = held.visits.layer() if held.visits is not None else held.layer
        if sliding_window is None or layer.window == sliding_window - 1:
            return layer
        return _layer(_local(sliding_window), layer.index)  # exact, as the model has it, whatever was asked for
    attention = _of_config(module.config)
    if attention != "dense" and any(_kind(layer) not in ("dense", "local") for layer in specs.parse_layers(attention)):
        raise RuntimeError(
            'lshformer: the config\'s "attention" is not exact: call lshformer.transformers.use(model) once, which reads '
            "what belongs to it"
        )
    return _layer("dense" if sliding_window is None else _local(sliding_window), 0)


def _layer(spec: Any, index: int, directions: Optional[nn.Module] = None) -> Layer:
    kind = _kind(spec)
    window = spec["window"] if kind == "local" else None
    return Layer(specs.spec_text(spec), index, window, kind == "reformer", directions)


def _local(sliding_window: int) -> dict[str, Any]:
    # Hugging Face's windows count the token itself, as FlashAttention's callers have it: half + 1.
    return {"type": "local", "window": sliding_window - 1}


def _kind(spec: Any) -> str:
    if isinstance(spec, list):
        return _kind(spec[0])
    return spec if isinstance(spec, str) else spec["type"]


def _is_plain(spec: Any) -> bool:
    return not isinstance(spec, list)


def _of_config(config: Any) -> Any:
    attention = getattr(config, "attention", None)
    return "dense" if attention is None else attention


def _layer_count(config: Any, modules: list[nn.Module]) -> int:
    """Of a model, whose layers may share modules, `visits` of them."""
    layers = getattr(config, "num_hidden_layers", len(modules))
    if len(modules) < layers or hasattr(config, "inner_group_num"):
        return layers * getattr(config, "inner_group_num", 1)
    return len(modules)


def _with_windows(config: Any, layers: list[Any]) -> list[Any]:
    """Layers that the model's config calls sliding get its window, exactly, and are otherwise left alone."""
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if types is None or window is None or len(types) != len(layers):
        return layers
    local = specs.parse_spec(_local(window + 1))
    return [local if kind == "sliding_attention" else layer for kind, layer in zip(types, layers)]


def _attention_modules(model: Any) -> list[nn.Module]:
    """The modules of self-attention, in the order of the model; ValueError where they cannot be replaced."""
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"lshformer: {name} has a decoder, which is causal, and there is no causal attention here")
    modules = [module for module in model.modules() if _goes_through_interface(type(module))]
    others = [module for module in model.modules() if _is_other_attention(module)]
    can = getattr(model, "_can_set_attn_implementation", None)
    if not modules or others or (can is not None and not can()):
        odd = type(others[0]).__name__ if others else name
        raise ValueError(
            f"lshformer: {name} does not go through transformers' AttentionInterface ({odd} computes attention by "
            "itself), so its attention cannot be replaced"
        )
    for module in modules:
        if "Cross" in type(module).__name__:
            raise ValueError(f"lshformer: {name} has cross-attention, which is not computed here")
        if is_causal(module):
            raise ValueError(
                f"lshformer: {name} is causal (in {type(module).__name__} a token sees none behind it), and there is no "
                "causal attention here"
            )
    return modules


def is_causal(module: nn.Module) -> bool:
    """A module that does not say (LayoutLM's) adds the mask that it is given, which is refused where it is no padding."""
    return bool(getattr(module, "is_causal", getattr(module.config, "is_decoder", False)))


@functools.lru_cache(maxsize=None)
def _goes_through_interface(cls: type) -> bool:
    forward = inspect.unwrap(getattr(cls, "forward", None) or (lambda: None))
    code = getattr(forward, "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _is_other_attention(module: nn.Module) -> bool:
    """Whether a module is named for attention and multiplies queries and keys itself."""
    if "Attention" not in type(module).__name__ or _goes_through_interface(type(module)):
        return False
    forward = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    names = set() if forward is None else set(forward.co_names)
    return bool(names & {"matmul", "bmm", "baddbmm", "scaled_dot_product_attention", "softmax", "einsum"})


def _hold(model: Any, modules: list[nn.Module], layers: list[Layer]) -> None:
    if len(modules) == len(layers):
        for module, layer in zip(modules, layers):
            setattr(module, _HELD, Held(layer=layer))
        return
    # Modules that layers share: every forward of the model goes through its layers in order.
    visits = Visits(layers)
    for module in modules:
        setattr(module, _HELD, Held(visits=visits))
    old = getattr(model, "_lshformer_hook", None)
    if old is not None:
        old.remove()
    model._lshformer_hook = getattr(model, "base_model", model).register_forward_pre_hook(visits.begin)


class _Directions(nn.Module):
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor.float().contiguous())


def _stored_directions(model: Any, layers: list[Any]) -> dict[int, nn.Module]:
    """Modules with the directions of each layer that stores them, parts of the model, so that it is saved with them.

    Their tensors are named as in folders of the program: lshformer.attention.LAYER.key_directions.
    """
    needed = [at for at, layer in enumerate(layers) if _stores(layer)]
    known = getattr(model, "lshformer", None)
    if not needed:
        if known is not None:
            del model.lshformer
        return {}
    kept = {} if known is None else {int(at): module for at, module in known.attention.items()}
    missing = [at for at in needed if at not in kept]
    if missing:
        kept.update(_read_directions(model, missing))
    holder = nn.Module()
    holder.attention = nn.ModuleDict({str(at): kept[at] for at in needed})
    model.lshformer = holder
    return {at: kept[at] for at in needed}


def _stores(spec: Any) -> bool:
    if isinstance(spec, list):
        return any(map(_stores, spec))
    return isinstance(spec, dict) and spec.get("directions") == "stored"


def _read_directions(model: Any, layers: list[int]) -> dict[int, nn.Module]:
    folder = pathlib.Path(getattr(model, "name_or_path", "") or "")
    found: dict[int, nn.Module] = {}
    wanted = {f"lshformer.attention.{at}.{name}": (at, name) for at in layers for name in DIRECTIONS}
    tensors: dict[int, dict[str, Tensor]] = {}
    for file in sorted(folder.glob("*.safetensors")) if str(folder) != "." else []:
        for name, tensor in _tensors(file, wanted):
            tensors.setdefault(wanted[name][0], {})[wanted[name][1]] = tensor
    for at in layers:
        if len(tensors.get(at, {})) != len(DIRECTIONS):
            raise ValueError(
                f'lshformer: layer {at}: "directions" are "stored", but {str(folder)!r} has no tensors '
                f"lshformer.attention.{at}.key_directions and .query_directions"
            )
        found[at] = _Directions(tensors[at])
    return found


def _tensors(file: pathlib.Path, names: Any) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    with safe_open(str(file), framework="pt") as tensors:
        for name in set(tensors.keys()) & set(names):
            yield name, tensors.get_tensor(name)


def why_not_padding(mask_function: Any) -> str:
    """Why a pattern of transformers' masks is not all keys, or a window to both sides; empty where it is."""
    from transformers import masking_utils

    if mask_function is None or mask_function is getattr(masking_utils, "bidirectional_mask_function", None):
        return ""
    if mask_function is masking_utils.causal_mask_function:
        return "the model asks for a causal mask, and there is no causal attention here"
    parts = _parts(mask_function)
    if len(parts) == 2 and all(map(_is_both_sided, parts)):
        return ""
    if any(part is masking_utils.causal_mask_function for part in parts):
        return "the model asks for a causal mask, and there is no causal attention here"
    return f"the model asks for a mask that is not padding ({getattr(mask_function, '__qualname__', mask_function)})"


def _parts(mask_function: Any) -> tuple[Any, ...]:
    """Of an intersection of patterns, as masking_utils.and_masks makes one."""
    if not getattr(mask_function, "__qualname__", "").startswith("and_masks"):
        return ()
    cells = inspect.getclosurevars(mask_function).nonlocals
    return tuple(cells.get("mask_functions", ()))


def _is_both_sided(part: Any) -> bool:
    from transformers import masking_utils

    if part is getattr(masking_utils, "bidirectional_mask_function", None):
        return True
    return getattr(part, "__qualname__", "").startswith("sliding_window_bidirectional_overlay")
