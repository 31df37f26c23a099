"""What another attention keeps of a model's answers, and what it costs: the program's figures, of models in Python."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from lshformer import functional


@dataclasses.dataclass(frozen=True)
class Row:
    """One attention of the same weights."""

    name: str
    pairs_fraction: float
    """Pairs computed, of all pairs of all texts."""
    time_fraction: float
    """Of attention's time alone, of exact attention's: the least of the runs of every text."""
    time_spread: float
    """Its standard deviation over the runs."""
    seconds: float
    """Attention's time of all texts, in seconds."""
    model_seconds: float
    """The whole forward's."""
    cosine_mean: float
    """Of a text's mean last hidden state to the exact model's, over the texts."""
    cosine_spread: float
    """The standard error of the mean; NaN of one text."""
    cosine_worst: float
    token_cosine_mean: float
    """Of its tokens' last hidden states, on average over a text's tokens."""
    token_cosine_worst: float


_COLUMNS = ("", "pairs", "time", "cosine", "worst", "tokens", "worst")


@dataclasses.dataclass(frozen=True)
class Report:
    """What `report` measured; str() is the table."""

    rows: tuple[Row, ...]
    """Exact attention first, then the model's own."""
    texts: int
    tokens: int

    def __str__(self) -> str:
        def spread(value: float, by: float, digits: int = 3) -> str:
            return f"{value:.{digits}g}" + (f" ± {by:.1g}" if by > 1e-6 else "")

        cells = [_COLUMNS] + [
            (
                row.name,
                f"{row.pairs_fraction:.3g}",
                spread(row.time_fraction, row.time_spread),
                spread(row.cosine_mean, row.cosine_spread, 4),
                f"{row.cosine_worst:.4g}",
                f"{row.token_cosine_mean:.4g}",
                f"{row.token_cosine_worst:.4g}",
            )
            for row in self.rows
        ]
        widths = [max(len(row[at]) for row in cells) for at in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
        lines.append("")
        lines.append(
            f"{self.texts} texts, {self.tokens} tokens; pairs: computed, of all; time: of attention, of exact "
            "attention's on this machine (± standard deviation over runs); cosine: of a text's mean hidden state to the "
            "exact model's (± standard error over texts); tokens: of its tokens' states, on average"
        )
        return "\n".join(lines)


def report(
    model: Any,
    texts: Sequence[str],
    *,
    tokenizer: Optional[Any] = None,
    max_length: Optional[int] = None,
    runs: int = 3,
) -> Report:
    """Compares a model's attention with exact attention of the same weights, text after text.

    Args:
        model: A transformers model or a SentenceTransformer that lshformer.….use was called for.
        texts: At least one.
        tokenizer: The model's; None: the SentenceTransformer's, or that of the folder the model was read from.
        max_length: Tokens at most of a text; None: the tokenizer's own bound.
        runs: How often each text is timed under each attention, in turn; the least counts.

    Returns:
        Pairs, time and cosines to exact: the columns of `lshformer convert`'s table. print() shows it.
    """
    if not texts:
        raise ValueError("lshformer: report: there are no texts")
    if runs < 1:
        raise ValueError(f"lshformer: report: expected at least 1 run, got {runs}")
    from lshformer import transformers as integration
    from lshformer.sentence_transformers import encoder_of

    encoder = encoder_of(model)
    if encoder.config._attn_implementation != integration.NAME:
        raise ValueError("lshformer: report: call lshformer.transformers.use(model, …) first")
    if tokenizer is None:
        tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(encoder.name_or_path)
    batches = [
        tokenizer(text, return_tensors="pt", truncation=True, **({} if max_length is None else {"max_length": max_length}))
        for text in texts
    ]
    own = encoder.config.attention
    training = encoder.training
    encoder.eval()
    measured = {"exact": _Measured(), _name_of(own): _Measured()}
    if len(measured) == 1:
        measured["own"] = _Measured()
    name = list(measured)[1]
    try:
        for _ in range(runs + 1):  # the first one warms up
            for which, attention in (("exact", "dense"), (name, own)):
                integration.use(encoder, attention)
                measured[which].run(encoder, batches)
    finally:
        integration.use(encoder, own)
        encoder.train(training)
    exact = measured["exact"]
    rows = tuple(what.row(which, exact) for which, what in measured.items())
    return Report(rows, len(batches), sum(batch["input_ids"].shape[1] for batch in batches))


def _name_of(attention: Any) -> str:
    kinds = attention if isinstance(attention, list) else [attention]
    names = sorted({kind["type"] if isinstance(kind, dict) else "by head" for kind in kinds})
    return ", ".join(names)


class _Measured:
    """One attention: states of the last run, pairs of the first, times of all but that."""

    def __init__(self) -> None:
        self.states: list[Tensor] = []
        self.pairs = [0, 0]
        self.attention_times: list[list[float]] = []
        self.model_times: list[list[float]] = []

    def run(self, model: Any, batches: list[Any]) -> None:
        first = not self.states
        self.states = []
        times, whole = [], []
        for batch in batches:
            watch = _Watch(count=first)
            with torch.no_grad(), watch:
                begin = time.perf_counter()
                output = model(**batch)
                whole.append(time.perf_counter() - begin - watch.counting)
            states = getattr(output, "last_hidden_state", None)
            if states is None:
                raise ValueError(f"lshformer: report: {type(model).__name__} gives no last_hidden_state")
            self.states.append(states[0].double())
            self.pairs = [a + b for a, b in zip(self.pairs, watch.pairs)]
            times.append(watch.seconds)
        if not first:
            self.attention_times.append(times)
            self.model_times.append(whole)

    def row(self, name: str, exact: "_Measured") -> Row:
        means = [_cosine(a.mean(0), b.mean(0)) for a, b in zip(self.states, exact.states)]
        tokens = [_token_cosines(a, b) for a, b in zip(self.states, exact.states)]
        seconds = sum(map(min, zip(*self.attention_times)))
        of_exact = sum(map(min, zip(*exact.attention_times)))
        shares = [sum(mine) / sum(theirs) for mine, theirs in zip(self.attention_times, exact.attention_times)]
        count = len(means)
        return Row(
            name=name,
            pairs_fraction=self.pairs[0] / self.pairs[1],
            time_fraction=seconds / of_exact,
            time_spread=statistics.stdev(shares) if len(shares) > 1 and self is not exact else 0.0,
            seconds=seconds,
            model_seconds=sum(map(min, zip(*self.model_times))),
            cosine_mean=statistics.fmean(means),
            cosine_spread=statistics.stdev(means) / math.sqrt(count) if count > 1 else math.nan,
            cosine_worst=min(means),
            token_cosine_mean=statistics.fmean(tokens),
            token_cosine_worst=min(tokens),
        )


class _Watch:
    """Sees every call of attention while it is entered: its time, and its pairs where they count."""

    def __init__(self, count: bool) -> None:
        self.count = count
        self.seconds = 0.0
        self.counting = 0.0
        self.pairs = [0, 0]

    def __enter__(self) -> "_Watch":
        self.before, functional.call = functional.call, self._call
        return self

    def __exit__(self, *unused: Any) -> None:
        functional.call = self.before

    def _call(self, query: Tensor, key: Optional[Tensor], value: Tensor, offsets: Tensor, spec: str, *rest: Any) -> Any:
        begin = time.perf_counter()
        result = self.before(query, key, value, offsets, spec, *rest)
        self.seconds += time.perf_counter() - begin
        if self.count:
            begin = time.perf_counter()
            _, _, layer, step, key_directions, query_directions = rest
            counts = torch.ops.lshformer.plan(query, key, offsets, spec, layer, step, key_directions, query_directions)
            self.pairs = [self.pairs[0] + int(counts[1]), self.pairs[1] + int(counts[0])]
            self.counting += time.perf_counter() - begin
        return result


def _cosine(a: Tensor, b: Tensor) -> float:
    length = float(a.norm() * b.norm())
    if length == 0:
        return float(torch.equal(a, b))
    return min(1.0, float(a @ b) / length)


def _token_cosines(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a, b, dim=-1).clamp(max=1).mean())
