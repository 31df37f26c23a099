"""LSH attention in Sentence-Transformers models: one line.

    import lshformer.sentence_transformers
    lshformer.sentence_transformers.use(model, "clustered")
"""

from __future__ import annotations

from typing import Any, Optional

import lshformer.transformers
from lshformer.specs import Spec
from transformers import PreTrainedModel

__all__ = ["use"]


def use(model: Any, attention: Optional[Spec] = None) -> Any:
    """lshformer.transformers.use of the encoder inside a SentenceTransformer (or CrossEncoder); returns the model.

    ValueError where there is none, or where it cannot be given another attention.
    """
    lshformer.transformers.use(encoder_of(model), attention)
    return model


def encoder_of(model: Any) -> PreTrainedModel:
    """The transformers model inside."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return module
    raise ValueError(f"lshformer: {type(model).__name__} has no transformers model inside")
