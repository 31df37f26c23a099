"""The same tensors under the command line: the same bits. The same folders: the same answers."""

from __future__ import annotations

import json
import subprocess

import pytest
import torch
from cases import SPECS, tensors

from lshformer import functional, parse_spec

safetensors = pytest.importorskip("safetensors.torch")
safe_open = pytest.importorskip("safetensors").safe_open


@pytest.mark.parametrize("name", [name for name in SPECS if name != "clustered_heads"])
def test_the_bits_of_the_command_attention(program, tmp_path, name):
    query, key, value, offsets = tensors(name, heads=3, head_dim=24, lengths=(200, 0, 1, 67))
    grad = torch.randn(query.shape)
    named = {"query": query, "value": value, "cu_seqlens": offsets, "grad_output": grad}
    if key is not None:
        named["key"] = key
    safetensors.save_file(named, tmp_path / "in.safetensors")
    spec = parse_spec(SPECS[name])
    command = [program, "attention", "--input", tmp_path / "in.safetensors", "--output", tmp_path / "out.safetensors"]
    subprocess.run([*command, "--attention", json.dumps(spec)], check=True, stderr=subprocess.PIPE)
    theirs = safetensors.load_file(tmp_path / "out.safetensors")
    leaves = [x.requires_grad_() for x in (query, key, value) if x is not None]
    out, lse = functional.attention(query, key, value, offsets, spec, return_lse=True)
    gradients = torch.autograd.grad(out, leaves, grad)
    assert torch.equal(out, theirs["output"]) and torch.equal(lse, theirs["lse"])
    for which, gradient in zip(("query", "key", "value") if key is not None else ("query", "value"), gradients):
        assert torch.equal(gradient, theirs[f"grad_{which}"])
    counts = functional.plan(query.detach(), None if key is None else key.detach(), offsets, spec)
    with safe_open(str(tmp_path / "out.safetensors"), framework="pt") as file:
        assert {name: str(count) for name, count in vars(counts).items()}.items() <= file.metadata().items()


def test_a_converted_folder_answers_as_the_program_does(program, tmp_path):
    """`convert` stores directions; transformers with ours computes what the program does with them."""
    transformers = pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("BERT of transformers 4 does not use AttentionInterface")
    import lshformer.transformers as integration

    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=120,
        max_position_embeddings=256,
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "exact")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(115))]
    (tmp_path / "exact" / "vocab.txt").write_text("\n".join(words) + "\n")
    texts = [" ".join(str(int(x)) for x in torch.randint(0, 115, (n,))) for n in (150, 180, 120, 200, 90)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    subprocess.run(
        [program, "convert", "--model_name_or_path", tmp_path / "exact", "--output_dir", tmp_path / "fast",
         "--attention", "clustered", "--lsh_cluster", "16", "--lsh_open", "1", "--calibrate", tmp_path / "texts.txt",
         "--no_progress"],
        check=True, capture_output=True,
    )
    lines = subprocess.run(
        [program, "predict", "--model_name_or_path", tmp_path / "fast", "--task", "feature-extraction",
         "--text_file", tmp_path / "texts.txt", "--pooling", "mean", "--no_progress"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    model = integration.use(transformers.BertModel.from_pretrained(tmp_path / "fast").eval())
    assert all(name.startswith("lshformer.attention.") for name in model.state_dict() if "directions" in name)
    assert any("directions" in name for name in model.state_dict())
    tokenizer = transformers.BertTokenizer(str(tmp_path / "exact" / "vocab.txt"))
    for text, line in zip(texts, lines, strict=True):
        with torch.no_grad():
            mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        theirs = torch.tensor(json.loads(line)["embedding"])
        assert (mean - theirs).abs().max() <= 1e-5 * theirs.abs().max().clamp(min=1)
