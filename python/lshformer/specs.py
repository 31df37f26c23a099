"""Which attention a layer computes: a name, an object or JSON text, checked by the same parser as the program's."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Union

import torch

Spec = Union[str, Mapping[str, Any], Sequence[Mapping[str, Any]]]


def spec_text(spec: Spec) -> str:
    """The spec as JSON text, unparsed. A name is a kind with its defaults; a list has one spec for each head."""
    if not isinstance(spec, str):
        return json.dumps(spec)
    return _text_of_string(spec)


# All that torch.compiler.assume_constant_result does, but that it imports the compiler: three seconds at every import.
spec_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=256)
def _text_of_string(spec: str) -> str:
    return spec if spec.lstrip()[:1] in ("{", "[", '"') else json.dumps(spec)


def parse_spec(spec: Spec) -> Any:
    """The spec of one layer with every key that its kind has, as config.json keeps it.

    ValueError, with the program's own message, where it has an unknown key or a value out of range.
    """
    return _parsed(torch.ops.lshformer.parse_spec, spec)


def parse_layers(spec: Spec) -> list[Any]:
    """The "attention" of a config: one spec for all layers, or a list with one for each; as a list."""
    parsed = _parsed(torch.ops.lshformer.parse_specs, spec)
    return parsed if isinstance(parsed, list) else [parsed]


def _parsed(parse: Any, spec: Spec) -> Any:
    try:
        return json.loads(parse(spec_text(spec)))
    except RuntimeError as error:
        raise ValueError(str(error)) from None
