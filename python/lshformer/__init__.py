"""Exact and LSH attention on CPUs, forward and backward, in memory linear in the length.

    lshformer.functional.attention(query, key, value, spec="clustered")   numpy or torch arrays
    lshformer.transformers.use(model, "clustered")                        a transformers model
    lshformer.sentence_transformers.use(model, "clustered")               a SentenceTransformer
    lshformer.report(model, texts)                                        pairs, time, and what is kept of exact

A spec says which attention: a kind's name ("dense", "local", "simhash", "reformer", "clustered") or an object with its
keys, as in a model's config.json; docs/attention.md of lshformer has them all. Importing this package loads the
operators torch.ops.lshformer.{attention, attention_backward, plan}.
"""

from lshformer import _load as _load
from lshformer import _operators as _operators
from lshformer import functional as functional
from lshformer._load import __version__ as __version__
from lshformer._report import Report as Report
from lshformer._report import report as report
from lshformer.specs import parse_spec as parse_spec

__all__ = ["Report", "__version__", "functional", "parse_spec", "report"]
