"""Wrong input is told in one line that names what is wrong, and nothing is computed."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from cases import tensors

import lshformer
from lshformer import _load, functional
from lshformer.specs import parse_layers


def fails(message: str, *args, **kwargs) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)) as caught:
        functional.attention(*args, **kwargs)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_tensors():
    query, key, value, offsets = tensors("dense")
    fails('tensor "query" is float16, expected float32, bfloat16 or float64', query.half(), key.half(), value.half())
    fails('tensor "key" is float64, expected float32', query, key.double(), value)
    fails('tensor "value" has shape [64, 2, 8], expected [64, 2, 16] as "query"', query, key, value[:, :, :8])
    fails('tensor "query" has shape [64, 32], expected [tokens, heads, head_dim]', query.flatten(1), key, value)
    fails('expected a head\'s numbers side by side', query.transpose(1, 2).contiguous().transpose(1, 2), key, value)
    fails('tensor "key" is missing', query, None, value)
    fails('of reformer attention the keys are the queries', query, key, value, spec="reformer")
    wide = torch.zeros(4, 1, 257)
    fails('expected a head_dim of 1 to 256', wide, wide, wide)
    fails('dropout: expected a probability from 0 to below 1, got 1', query, key, value, offsets, dropout=1.0)
    fails('dropout: expected a probability from 0 to below 1', *(x.double() for x in (query, key, value)), dropout=-1.0)
    for dtype in (torch.float32, torch.float64):
        inputs = [x.to(dtype) for x in (query, key, value)]
        fails('3 specs of heads for 2 heads', *inputs, spec=[{"type": "clustered", "open": i} for i in (1, 2, 3)])
    fails('layer: expected one from 0, got -1', query, key, value, layer=-1)
    fails('step: expected one from 0, got -1', query, key, value, step=-1)


def test_sequences():
    query, key, value, _ = tensors("dense")

    def offsets(*values, dtype=torch.int32):
        return torch.tensor(values, dtype=dtype)

    fails('tensor "cu_seqlens"[2]: expected at least 40 (offsets ascend), got 30', query, key, value, offsets(0, 40, 30, 64))
    fails('tensor "cu_seqlens"[1]: expected 64 (the tokens of "query"), got 63', query, key, value, offsets(0, 63))
    fails('tensor "cu_seqlens"[0]: expected 0, got 1', query, key, value, offsets(1, 64))
    with pytest.raises(ValueError, match="an offset of 4294967360"):
        functional.attention(query, key, value, [0, 2**32 + 64])
    assert torch.equal(functional.attention(query, key, value, [0, 64]), functional.attention(query, key, value))
    fails('tensor "cu_seqlens" is float32, expected int32', query, key, value, offsets(0, 64, dtype=torch.float32))
    fails('tensor "cu_seqlens" has shape [1, 2], expected [sequences + 1]', query, key, value, offsets(0, 64)[None])


def test_directions():
    query, key, value, _ = tensors("clustered", lengths=(200,))
    stored = {"type": "clustered", "cluster": 16, "open": 1, "directions": "stored"}
    fails('"directions" are "stored", but there are none', query, key, value, spec=stored)
    of_keys, of_queries = torch.randn(2, 16, 16), torch.randn(2, 16, 6)
    fails('tensor "key_directions" has shape [1, 16, 16], expected [2, 16, depth]', query, key, value, spec=stored,
          key_directions=of_keys[:1], query_directions=of_queries)
    fails('simhash attention has no directions', query, key, value, spec="simhash", key_directions=of_keys)
    for name in ("key_directions", "query_directions"):
        given = {"key_directions": of_keys, "query_directions": of_queries}
        given[name] = given[name].clone().requires_grad_()
        fails(f'"{name}" requires a gradient, and sorting along it has none', query, key, value, spec=stored, **given)
        with pytest.raises(RuntimeError, match=f'"{name}" requires a gradient'):
            torch.ops.lshformer.attention(query, key, value, torch.tensor([0, 200], dtype=torch.int32),
                                          json.dumps(stored), **given)
        with torch.no_grad():
            functional.attention(query, key, value, spec=stored, **given)


def test_gradients_that_there_are_none_of():
    query, key, value, offsets = tensors("dense")
    query.requires_grad_()
    out, lse = functional.attention(query, key, value, offsets, return_lse=True)
    assert out.requires_grad and not lse.requires_grad
    (grad,) = torch.autograd.grad(out.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="gradients of gradients are not computed"):
        grad.sum().backward()


def test_kernels_for_cuda_say_that_there_are_none():
    assert torch._C._dispatch_has_kernel_for_dispatch_key("lshformer::attention", "CUDA")


def test_other_devices():
    with torch._subclasses.FakeTensorMode():
        there = [torch.empty(4, 2, 8, device="cuda") for _ in range(3)]
        offsets = torch.empty(2, dtype=torch.int32)
        with pytest.raises(RuntimeError, match="is on cuda.*expected one on the CPU: there are no kernels"):
            torch.ops.lshformer.attention(*there, offsets, "dense")


def test_meta_tensors_have_no_numbers():
    """A tensor on another device than the others would else make results of memory that nobody wrote to."""
    query, key, value, offsets = tensors("dense")
    out = functional.attention(query.to("meta"), key.to("meta"), value.to("meta"), offsets.to("meta"))
    assert out.device.type == "meta" and out.shape == query.shape
    fails('tensor "key" is on meta, expected cpu as "query"', query, key.to("meta"), value, offsets)
    fails('tensor "value" is on meta, expected cpu as "query"', query, key, value.to("meta"), offsets)
    fails('tensor "cu_seqlens" is on meta, expected cpu as "query"', query, key, value, offsets.to("meta"))
    fails('tensor "key" is on cpu, expected meta as "query"', query.to("meta"), key, value.to("meta"), offsets)
    with pytest.raises(RuntimeError, match='"cu_seqlens" is on meta, expected cpu'):
        functional.plan(query, key, offsets.to("meta"))


@pytest.mark.parametrize(
    "spec,message",
    [
        ("dens", 'attention: "type": expected "dense", "simhash", "reformer", "clustered" or "local", got "dens"'),
        ({"type": "clustered", "clusters": 3}, 'attention: unknown key "clusters" (did you mean "cluster"?)'),
        ('{"type": "dense"', "attention: invalid JSON at column 16: unexpected end of input; expected '}'"),
        ({"type": "local", "window": -1}, 'attention: "window"'),
        ({"type": "simhash", "bands": 0}, "bands"),
    ],
)
def test_specs(spec, message):
    with pytest.raises(ValueError) as caught:
        lshformer.parse_spec(spec)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    query, key, value, _ = tensors("dense")
    fails(str(caught.value), query, key, value, spec=spec)


def test_specs_that_parse_have_every_key():
    assert lshformer.parse_spec("dense") == {"type": "dense", "seed": 0}
    clustered = lshformer.parse_spec({"type": "clustered", "open": 2})
    assert clustered["open"] == 2 and lshformer.parse_spec(clustered) == clustered
    assert [layer["type"] for layer in parse_layers(["dense", "clustered"])] == ["dense", "clustered"]


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "clustered", "open": 2, "bands": 3},
        {"type": "dens"},
        {"type": "local", "window": -1},
        {"type": "simhash", "bands": 0},
        {"type": "clustered", "cluster": "many"},
    ],
    ids=json.dumps,
)
def test_a_spec_is_refused_in_the_programs_words(program, tmp_path, spec):
    with pytest.raises(ValueError) as caught:
        lshformer.parse_spec(spec)
    config = tmp_path / "config.json"
    sizes = dict.fromkeys(("hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"), 64)
    config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1, **sizes, "attention": spec}))
    run = subprocess.run([program, "info", str(tmp_path)], capture_output=True, text=True)
    assert run.returncode != 0
    assert str(caught.value).removeprefix("attention: ") in run.stderr


def test_an_older_torch_is_an_import_error():
    with pytest.raises(ImportError, match="needs torch 2.10 or newer, found 2.9.1"):
        _load.check_torch("2.9.1+cpu")
    for version in ("2.10.0", "2.15.0+cu132", "3.0.0a1"):
        _load.check_torch(version)


@pytest.mark.parametrize("version", ["2.9.1+cpu", None])
def test_importing_it_into_such_a_torch_says_so_in_one_line(tmp_path, version):
    """Of a stand-in for that torch: what it lacks is not looked for."""
    package = pathlib.Path(lshformer.__file__).parent
    (tmp_path / "lshformer").symlink_to(package)
    if version is not None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    hide = "" if version else "sys.modules['torch'] = None; "
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {hide}import lshformer"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = run.stderr.strip().splitlines()[-1]
    found = "needs torch 2.10 or newer, found 2.9.1+cpu" if version else "needs torch, which is not installed"
    assert run.returncode == 1 and last.startswith(f"ImportError: lshformer: {found}"), last
