"""Models of transformers under our attention: the same answers, or a refusal that says why."""

from __future__ import annotations

import json
import sys

import pytest
import torch

transformers = pytest.importorskip("transformers")

import lshformer
import lshformer.transformers as integration
from lshformer import _models
from models import FAMILIES, FIVE, IN_FOUR, ITSELF, batch, make, needs_five, states

@pytest.mark.parametrize("family", list(FAMILIES) if FIVE else IN_FOUR)
@pytest.mark.parametrize("left", [False, True], ids=["padded_right", "padded_left"])
def test_dense_is_the_exact_model(family, left):
    model = make(family)
    inputs = batch(left=left)
    results = []
    for attention in (None, "dense"):
        if attention:
            integration.use(model, attention)
        model.zero_grad()
        out = states(model, inputs)
        torch.manual_seed(1)
        (out * torch.randn_like(out)).sum().backward()
        results.append((out.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}))
    (exact, exact_grads), (ours, our_grads) = results
    assert (ours - exact).abs().max() <= 1e-5 * exact.abs().max()
    largest = max(grad.abs().max() for grad in exact_grads.values())
    assert exact_grads.keys() == our_grads.keys()
    assert all((our_grads[name] - grad).abs().max() <= 1e-4 * largest for name, grad in exact_grads.items())


@needs_five
@pytest.mark.parametrize("family", ["Bert", "ModernBert", "DistilBert", "Albert"])
def test_a_texts_result_is_its_own(family):
    model = integration.use(make(family), {"type": "clustered", "cluster": 8, "open": 1})
    inputs = batch((120, 50, 90), 120)
    with torch.no_grad():
        together = model(**inputs).last_hidden_state
        for row, n in enumerate((120, 50, 90)):
            alone = model(**{name: x[row : row + 1, :n] for name, x in inputs.items()}).last_hidden_state[0]
            assert (together[row, :n] - alone).abs().max() <= 1e-5 * alone.abs().max()


@needs_five
def test_padding_counts():
    """The mask reaches the kernels: without it the same ids give something else."""
    model = integration.use(make("Bert"), "dense")
    inputs = batch()
    without = model(inputs["input_ids"], attention_mask=torch.ones_like(inputs["attention_mask"])).last_hidden_state
    assert not torch.allclose(without[1, :25], model(**inputs).last_hidden_state[1, :25], atol=1e-3)


@needs_five
def test_without_use_a_model_made_so_is_exact():
    exact, inputs = make("Bert"), batch()
    model = make("Bert")
    model.set_attn_implementation("lshformer")
    assert (states(model, inputs) - states(exact, inputs)).abs().max() < 1e-5
    model.config.attention = {"type": "clustered"}
    with pytest.raises(RuntimeError, match="call lshformer.transformers.use"):
        model(**inputs)


@needs_five
def test_windows_stay_exact_and_are_kept_in_the_config(tmp_path):
    model = make("ModernBert")
    inputs = batch((200, 120, 77), 200)
    exact = states(model, inputs)
    integration.use(model, "clustered")
    assert [layer["type"] for layer in model.config.attention] == ["clustered", "local", "clustered"]
    assert model.config.attention[1]["window"] == 4  # of local_attention 8, half of it on each side
    integration.use(model, {"type": "clustered", "min_length": 1000})
    assert (states(model, inputs) - exact).abs().max() <= 1e-5 * exact.abs().max()


@needs_five
@pytest.mark.parametrize("family", ["Bert", "Albert", "ModernBert"])
def test_layers_have_attentions_of_their_own_and_come_back_from_a_folder(family, tmp_path):
    model = make(family)
    inputs = batch((150, 90), 150)
    clustered = {"type": "clustered", "cluster": 8, "open": 1}
    integration.use(model, ["dense", "dense", clustered])
    mixed = states(model, inputs)
    model.save_pretrained(tmp_path)
    kept = json.loads((tmp_path / "config.json").read_text())["attention"]
    assert kept[2]["type"] == "clustered" and kept[2]["cluster"] == 8
    again = integration.use(type(model).from_pretrained(tmp_path))
    assert torch.equal(mixed, states(again, inputs))
    assert not torch.equal(mixed, states(integration.use(model, [clustered, "dense", "dense"]), inputs))


@needs_five
def test_draws_differ_by_layer_where_layers_share_weights():
    model = integration.use(make("Albert"), "clustered")
    held = [module._lshformer for module in model.modules() if hasattr(module, "_lshformer")]
    assert len(held) == 1 and [layer.index for layer in held[0].visits.layers] == [0, 1, 2]
    inputs = batch((150, 90), 150)
    assert torch.equal(states(model, inputs), states(model, inputs))
    assert list(held[0].visits.next.values()) == [3]


@needs_five
def test_shared_layers_are_not_confused():
    model = integration.use(make("Albert", "ForMaskedLM"), "clustered")
    inputs = batch((150, 90), 150)
    first = model(**inputs).logits
    assert torch.equal(first, model(**inputs).logits)
    assert torch.equal(model.albert(**inputs).last_hidden_state, model.albert(**inputs).last_hidden_state)
    visits = next(module._lshformer.visits for module in model.modules() if hasattr(module, "_lshformer"))
    with pytest.raises(RuntimeError, match="more than the model's 3 layers in one forward"):
        visits.layer()  # as a layer that is computed again
    exact = integration.use(model, "dense").train()
    exact(**inputs).logits.sum().backward()
    assert next(m._lshformer for m in model.modules() if hasattr(m, "_lshformer")).visits.layer().spec


@needs_five
def test_stored_directions_are_read_and_saved(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = make("Bert")
    model.save_pretrained(tmp_path / "exact")
    tensors = safetensors.load_file(tmp_path / "exact" / "model.safetensors")
    for layer in range(3):
        tensors[f"lshformer.attention.{layer}.key_directions"] = torch.randn(4, 16, 16)
        tensors[f"lshformer.attention.{layer}.query_directions"] = torch.randn(4, 16, 6)
    safetensors.save_file(tensors, tmp_path / "exact" / "model.safetensors", {"format": "pt"})
    stored = {"type": "clustered", "cluster": 8, "open": 1, "directions": "stored"}
    config = json.loads((tmp_path / "exact" / "config.json").read_text())
    (tmp_path / "exact" / "config.json").write_text(json.dumps({**config, "attention": stored}))
    inputs = batch((150, 90), 150)
    read = integration.use(transformers.BertModel.from_pretrained(tmp_path / "exact").eval())
    drawn = states(integration.use(model, {**stored, "directions": "random"}), inputs)
    assert not torch.equal(states(read, inputs), drawn)
    read.save_pretrained(tmp_path / "again")
    kept = safetensors.load_file(tmp_path / "again" / "model.safetensors")
    name = "lshformer.attention.2.query_directions"
    assert torch.equal(kept[name], tensors[name])
    again = integration.use(transformers.BertModel.from_pretrained(tmp_path / "again").eval())
    assert torch.equal(states(read, inputs), states(again, inputs))
    with pytest.raises(ValueError, match="has no tensors lshformer.attention.0.key_directions"):
        integration.use(make("Bert"), stored)
    integration.use(read, "dense")
    assert not any("lshformer" in name for name in read.state_dict())


@needs_five
def test_compiled_whole():
    for family in ("Bert", "ModernBert", "Albert"):
        model = integration.use(make(family), "dense")
        inputs = batch()
        plain = states(model, inputs)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert (states(compiled, inputs) - plain).abs().max() <= 1e-5 * plain.abs().max()


@needs_five
def test_training_with_dropout_is_reproducible():
    model = make("Bert", attention_probs_dropout_prob=0.3, hidden_dropout_prob=0.0)
    integration.use(model, "clustered").train()
    inputs = batch()
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(states(model, inputs))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
    results[0].sum().backward()


@needs_five
def test_autocast():
    model = integration.use(make("Bert"), "dense")
    inputs = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = states(model, inputs)
    exact = states(model, inputs)
    assert (rounded.float() - exact).abs().max() <= 0.05 * exact.abs().max()


@pytest.mark.parametrize("family", [*ITSELF, *([] if FIVE else sorted(set(FAMILIES) - set(IN_FOUR)))])
def test_architectures_outside_the_interface_are_refused_by_name(family):
    model = make(family)
    with pytest.raises(ValueError, match=f"{family}Model does not go through transformers' AttentionInterface"):
        integration.use(model, "dense")
    assert model.config._attn_implementation == "eager" and not hasattr(model.config, "attention")


def test_an_encoder_without_masks():
    """Through the interface in both versions of transformers."""
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=4
    )
    config._attn_implementation = "eager"
    model = transformers.ViTModel(config).eval()
    pixels = torch.randn(2, 3, 32, 32)
    exact = model(pixels).last_hidden_state
    integration.use(model, "dense")
    assert (model(pixels).last_hidden_state - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize(
    "config,reason",
    [
        (lambda: transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=50), "GPT2Model is causal"),
        (lambda: transformers.T5Config(d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2, vocab_size=50), "decoder"),
    ],
    ids=["causal", "encoder_decoder"],
)
def test_refused_models(config, reason):
    model = transformers.AutoModel.from_config(config())
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match=reason):
        integration.use(model, "dense")
    assert model.config._attn_implementation == before


@needs_five
def test_refused_calls():
    with pytest.raises(ValueError, match="BertModel is causal"):
        integration.use(make("Bert", is_decoder=True), "dense")
    model = integration.use(make("Bert"), "dense")
    inputs = batch()
    holes = inputs["attention_mask"].clone()
    holes[0, 7] = 0
    with pytest.raises(ValueError, match=r"attention_mask\[0\] is not padding: its tokens stand in 2 runs"):
        model(inputs["input_ids"], attention_mask=holes)
    pairs = torch.ones(3, 1, 40, 40).tril()
    with pytest.raises(ValueError, match=r"a mask of shape \[3, 1, 40, 40\] \(float32\) is not padding"):
        model(inputs["input_ids"], attention_mask=pairs)
    with pytest.raises(ValueError, match="output_attentions"):
        integration.attention_forward(
            next(m for m in model.modules() if hasattr(m, "_lshformer")), *(torch.randn(1, 4, 5, 16) for _ in range(3)),
            None, output_attentions=True,
        )
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="offsets ascend"):
        compiled(inputs["input_ids"], attention_mask=holes)


def test_refused_patterns_of_masks():
    from transformers import masking_utils

    assert "causal" in _models.why_not_padding(masking_utils.causal_mask_function)
    assert "causal" in _models.why_not_padding(masking_utils.sliding_window_causal_mask_function(4))

    def odd(batch_index, head_index, query_index, key_index):
        return query_index % 2 == key_index % 2

    assert "odd" in _models.why_not_padding(odd)
    assert "not padding" in _models.why_not_padding(masking_utils.and_masks(odd, odd))


@needs_five
def test_bad_attentions():
    model = make("Bert")
    with pytest.raises(ValueError, match='unknown key "clusters"'):
        integration.use(model, {"type": "clustered", "clusters": 2})
    with pytest.raises(ValueError, match="2 specs for 3 layers"):
        integration.use(model, ["dense", "dense"])
    with pytest.raises(TypeError, match="expected a transformers model, got Linear"):
        integration.use(torch.nn.Linear(1, 1), "dense")


class Tokens:
    """Words of numbers as ids; a tokenizer as far as `report` asks."""

    def __call__(self, text, **unused):
        ids = torch.tensor([[int(word) for word in text.split()]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@needs_five
def test_report():
    model = integration.use(make("Bert"), {"type": "clustered", "cluster": 8, "open": 1})
    texts = [" ".join(str(int(x)) for x in torch.randint(4, 120, (n,))) for n in (300, 200)]
    report = lshformer.report(model, texts, tokenizer=Tokens(), runs=1)
    exact, own = report.rows
    assert (exact.pairs_fraction, exact.time_fraction, exact.cosine_mean) == (1.0, 1.0, pytest.approx(1.0))
    assert own.name == "clustered" and 0 < own.pairs_fraction < 0.5 and own.seconds > 0
    assert own.cosine_worst <= own.cosine_mean <= 1 and own.token_cosine_worst <= own.token_cosine_mean < 1
    assert (report.texts, report.tokens) == (2, 500)
    assert str(report).splitlines()[0].split() == ["pairs", "time", "cosine", "worst", "tokens", "worst"]
    assert model.config.attention["type"] == "clustered" and lshformer.functional.call.__name__ == "call"
    with pytest.raises(ValueError, match="no texts"):
        lshformer.report(model, [])


@needs_five
def test_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    import lshformer.sentence_transformers as one_line

    words = tmp_path / "model"
    encoder = make("Bert")
    encoder.save_pretrained(words)
    (words / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(115))]))
    transformers.BertTokenizer(str(words / "vocab.txt")).save_pretrained(words)
    model = library.SentenceTransformer(str(words), device="cpu")
    texts = ["7 8 9 11 70", "5 6", " ".join(map(str, range(100)))]
    exact = model.encode(texts)
    assert one_line.use(model, "dense") is model
    assert abs(model.encode(texts) - exact).max() < 1e-5
    one_line.use(model, {"type": "clustered", "cluster": 8, "open": 1})
    assert abs(model.encode(texts) - exact).max() > 1e-5
    assert one_line.encoder_of(model).config.attention["type"] == "clustered"
    with pytest.raises(ValueError, match="no transformers model inside"):
        one_line.use(torch.nn.Linear(1, 1))


def test_nothing_else_is_imported():
    """`import lshformer` alone needs no transformers, and not torch's compiler, which takes seconds."""
    import subprocess

    code = (
        "import sys, torch; had = 'torch._dynamo' in sys.modules; import lshformer; "
        "sys.exit('transformers' in sys.modules or (not had and 'torch._dynamo' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
