"""The operators themselves: values, gradients, registrations, layouts, threads."""

from __future__ import annotations

import pytest
import torch
from cases import SPECS, tensors

from lshformer import functional
from lshformer.specs import spec_text

BY_NAME = pytest.mark.parametrize("name", list(SPECS))


def by_softmax(query, key, value, offsets, window=None):
    """Exact attention, sequence after sequence, by the formula."""
    parts = []
    for begin, end in zip(offsets.tolist(), offsets.tolist()[1:]):
        q, k, v = (x[begin:end].transpose(0, 1).double() for x in (query, key, value))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        if window is not None:
            at = torch.arange(end - begin)
            scores = scores.masked_fill((at[:, None] - at).abs() > window, -torch.inf)
        parts.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("name,window", [("dense", None), ("local", 5)])
def test_exact_kinds_are_softmax(name, window):
    query, key, value, offsets = tensors(name)
    out, lse = functional.attention(query, key, value, offsets, SPECS[name], return_lse=True)
    assert out.shape == query.shape and lse.shape == query.shape[:2]
    torch.testing.assert_close(out.double(), by_softmax(query, key, value, offsets, window), atol=2e-6, rtol=0)


@BY_NAME
def test_float32_and_its_gradients_are_the_references(name):
    inputs = tensors(name)
    results = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(1)
        leaves = [None if x is None else x.detach().to(dtype).requires_grad_() for x in inputs[:3]]
        out = functional.attention(*leaves, inputs[3], SPECS[name])
        weights = torch.randn(out.shape, dtype=torch.float32).to(dtype)
        (out * weights).sum().backward()
        results.append([out.detach(), *(x.grad for x in leaves if x is not None)])
    for fast, exact in zip(*results):
        scale = exact.abs().max().item()
        assert (fast.double() - exact).abs().max().item() <= 2e-5 * scale


@BY_NAME
def test_bfloat16_is_near_and_of_its_type(name):
    query, key, value, offsets = tensors(name)
    inputs = [None if x is None else x.bfloat16().requires_grad_() for x in (query, key, value)]
    out = functional.attention(*inputs, offsets, SPECS[name])
    out.float().square().sum().backward()
    wide = functional.attention(*(None if x is None else x.detach().float() for x in inputs), offsets, SPECS[name])
    assert out.dtype == torch.bfloat16
    assert all(x.grad.dtype == torch.bfloat16 and x.grad.isfinite().all() for x in inputs if x is not None)
    if name in ("dense", "local"):  # elsewhere rounding may move a token to another bucket
        assert (out.float() - wide).abs().max() <= 0.03 * wide.abs().max()


@BY_NAME
def test_views_are_read_where_they_lie(name):
    query, key, value, offsets = tensors(name)
    slices = [torch.randn(query.shape[0], 3, 2, 20) for _ in range(3)]
    for into, x in zip(slices, (query, key, value)):
        if x is not None:
            into[:, 1, :, :16] = x
    views = [None if x is None else into[:, 1, :, :16] for into, x in zip(slices, (query, key, value))]
    out = functional.attention(query, key, value, offsets, SPECS[name])
    assert torch.equal(out, functional.attention(*views, offsets, SPECS[name]))
    heads_first = [None if x is None else x.transpose(0, 1).contiguous().transpose(0, 1) for x in (query, key, value)]
    assert torch.equal(out, functional.attention(*heads_first, offsets, SPECS[name]))


@BY_NAME
def test_neither_threads_nor_batch_mates_change_a_bit(name):
    query, key, value, offsets = tensors(name)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(functional.attention(query, key, value, offsets, SPECS[name]))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])
    last = slice(int(offsets[-2]), int(offsets[-1]))
    alone = functional.attention(*(None if x is None else x[last] for x in (query, key, value)), None, SPECS[name])
    assert torch.equal(results[0][last], alone)


# Not of clusters: their gradient holds the weights of centroids constant, which differences do not.
@pytest.mark.parametrize("name", [name for name in SPECS if not name.startswith("clustered")])
def test_gradcheck(name):
    query, key, value, offsets = tensors(name, head_dim=4, dtype=torch.float64, lengths=(17, 9))
    leaves = [x.requires_grad_() for x in (query, key, value) if x is not None]

    def run(*given):
        rest = list(given)
        q, k, v = rest.pop(0), None if key is None else rest.pop(0), rest.pop(0)
        return functional.attention(q, k, v, offsets, SPECS[name])

    assert torch.autograd.gradcheck(run, leaves, eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", ["dense", "clustered", "reformer"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(name, dtype):
    query, key, value, offsets = tensors(name, dtype=dtype)
    inputs = [None if x is None else x.requires_grad_() for x in (query, key, value)]
    spec = spec_text(SPECS[name])
    torch.library.opcheck(torch.ops.lshformer.attention.default, (*inputs, offsets, spec, 3, 0.25, 1, 0, None, None))
    plain = [None if x is None else x.detach() for x in inputs]
    out, lse = torch.ops.lshformer.attention(*plain, offsets, spec)
    torch.library.opcheck(
        torch.ops.lshformer.attention_backward.default,
        (torch.randn_like(out), *plain, out, lse, offsets, spec, 0, 0.0, 0, 0, None, None),
    )
    torch.library.opcheck(torch.ops.lshformer.plan.default, (plain[0], plain[1], offsets, spec))


@pytest.mark.parametrize("name", ["dense", "clustered"])
def test_compiled_whole_forward_and_backward(name):
    query, key, value, offsets = tensors(name)
    leaves = [x.requires_grad_() for x in (query, key, value)]

    def run(q, k, v):
        return functional.attention(q * 2, k, v, offsets, SPECS[name]).sin()

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    results = []
    for call in (run, compiled):
        out = call(*leaves)
        results.append([out.detach(), *torch.autograd.grad(out.sum(), leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_exported_with_any_number_of_tokens():
    class Attention(torch.nn.Module):
        def forward(self, query, key, value, offsets):
            return functional.attention(query, key, value, offsets, "dense")

    tokens = torch.export.Dim("tokens", min=2, max=4096)
    query, key, value, offsets = tensors("dense")
    shapes = ({0: tokens}, {0: tokens}, {0: tokens}, None)
    exported = torch.export.export(Attention(), (query, key, value, offsets), dynamic_shapes=shapes).module()
    longer = tensors("dense", lengths=(50, 3, 7, 40))
    assert torch.equal(exported(*longer), functional.attention(*longer, "dense"))


def test_autocast_multiplies_in_bfloat16():
    query, key, value, offsets = tensors("dense")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = functional.attention(query, key, value, offsets)
    rounded = [x.bfloat16() for x in (query, key, value)]
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, functional.attention(*rounded, offsets))


def test_dropout_is_a_function_of_its_seed():
    query, key, value, offsets = tensors("dense")

    def run(seed, **other):
        return functional.attention(query, key, value, offsets, dropout=0.5, seed=seed, **other)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2)) and not torch.equal(run(1), run(1, layer=1))
    many = torch.stack([run(seed) for seed in range(300)]).mean(0)
    plain = functional.attention(query, key, value, offsets)
    assert (many - plain).abs().mean() < 0.15 * plain.abs().mean()


def test_draws_follow_seed_and_layer_and_stored_directions_go_before():
    query, key, value, _ = tensors("clustered", lengths=(200,))
    spec = {"type": "clustered", "cluster": 16, "open": 1}

    def run(spec, **other):
        return functional.attention(query, key, value, None, spec, **other)

    assert torch.equal(run(spec), run(spec))
    assert not torch.equal(run(spec), run(spec, layer=1)) and not torch.equal(run(spec), run({**spec, "seed": 1}))
    directions = {"key_directions": torch.randn(2, 16, 16), "query_directions": torch.randn(2, 16, 6)}
    stored = run({**spec, "directions": "stored"}, **directions)
    assert not torch.equal(stored, run(spec))
    assert torch.equal(stored, run({**spec, "directions": "stored", "seed": 5}, **directions))


def test_plan_counts_pairs():
    query, key, _, offsets = tensors("dense")
    whole = 2 * (40**2 + 1 + 23**2)
    dense = functional.plan(query, key, offsets)
    assert (dense.pairs_total, dense.pairs_computed, dense.hash_flops, dense.share) == (whole, whole, 0, 1.0)
    fewer = functional.plan(query, key, offsets, SPECS["clustered"])
    assert fewer.pairs_total == whole and 0 < fewer.pairs_computed < whole and fewer.hash_flops > 0


def test_no_tokens():
    none = torch.empty(0, 2, 8)
    out, lse = functional.attention(none, none, none, return_lse=True)
    assert out.shape == (0, 2, 8) and lse.shape == (0, 2)


def test_numpy_in_numpy_out():
    np = pytest.importorskip("numpy")
    query, key, value, offsets = tensors("dense")
    arrays = [x.numpy() for x in (query, key, value, offsets)]
    arrays[0].flags.writeable = False
    out, lse = functional.attention(*arrays, return_lse=True)
    assert isinstance(out, np.ndarray) and isinstance(lse, np.ndarray)
    assert (out == functional.attention(query, key, value, offsets).numpy()).all()
    assert functional.plan(*arrays[:2], arrays[3]).share == 1.0
