"""What people do with a model besides one forward: it stays right, or says why not."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import pytest
import torch

transformers = pytest.importorskip("transformers")

import lshformer.transformers as integration
from lshformer import _models
from models import batch, make, needs_five, states

CLUSTERED = {"type": "clustered", "cluster": 8, "open": 1}
LONG = ((150, 90), 150)


def attention_of(model):
    return next(module for module in model.modules() if hasattr(module, "_lshformer"))


@needs_five
@pytest.mark.parametrize("family", ["Bert", "Albert"])
def test_use_twice_is_use_once(family):
    inputs = batch(*LONG)
    once = states(integration.use(make(family), CLUSTERED), inputs)
    model = make(family)
    exact = states(integration.use(model, "dense"), inputs)
    for attention in (CLUSTERED, "dense", CLUSTERED):
        integration.use(model, attention)
    assert torch.equal(states(model, inputs), once) and not torch.equal(once, exact)
    assert len(model._forward_pre_hooks) == (1 if family == "Albert" else 0)
    model.set_attn_implementation("eager")
    assert (states(model, inputs) - exact).abs().max() <= 1e-5 * exact.abs().max()


@needs_five
@pytest.mark.parametrize("family", ["Bert", "Albert", "ModernBert"])
def test_copies_are_models_of_their_own(family):
    model = integration.use(make(family), CLUSTERED)
    inputs = batch(*LONG)
    before = states(model, inputs)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(states(twin, inputs), before)
        integration.use(twin, "dense")
        assert not torch.equal(states(twin, inputs), before)
        assert torch.equal(states(model, inputs), before)


@needs_five
def test_a_saved_folder_keeps_it_for_other_heads(tmp_path):
    model = integration.use(make("Bert"), CLUSTERED)
    inputs = batch(*LONG)
    model.save_pretrained(tmp_path)
    other = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    assert torch.equal(states(integration.use(other).bert, inputs), states(model, inputs))
    asked = transformers.BertModel.from_pretrained(tmp_path, attn_implementation="lshformer").eval()
    with pytest.raises(RuntimeError, match="call lshformer.transformers.use"):
        states(asked, inputs)


@needs_five
def test_data_parallel_and_inference_mode():
    model = integration.use(make("Bert"), CLUSTERED)
    inputs = batch(*LONG)
    with torch.no_grad():
        plain = states(model, inputs)
        assert torch.equal(states(torch.nn.DataParallel(model), inputs), plain)
    with torch.inference_mode():
        assert torch.equal(states(model, inputs), plain)
        assert torch.equal(states(model, {name: x.clone() for name, x in inputs.items()}), plain)


@needs_five
def test_threads_that_share_a_model_do_not_share_its_place():
    """ALBERT's layers are told apart by their order."""
    model = integration.use(make("Albert"), CLUSTERED)
    inputs = [batch(*LONG) for _ in range(2)]
    with torch.no_grad():
        alone = [states(model, x) for x in inputs]
    wrong = []

    def run(at: int) -> None:
        with torch.no_grad():
            for _ in range(4):
                try:
                    assert torch.equal(states(model, inputs[at]), alone[at])
                except BaseException as error:
                    wrong.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_five
def test_types():
    inputs = batch()
    exact = states(make("Bert"), inputs)
    for dtype, near in ((torch.bfloat16, 0.05), (torch.float64, 1e-5)):
        model = integration.use(make("Bert").to(dtype), "dense")
        assert (states(model, inputs).float() - exact).abs().max() <= near * exact.abs().max()
    with pytest.raises(RuntimeError, match='tensor "query" is float16, expected float32, bfloat16 or float64'):
        states(integration.use(make("Bert"), "dense").half(), inputs)


@needs_five
def test_layers_that_are_computed_again_draw_the_same_dropout():
    gradients = []
    for again in (False, True):
        model = make("Bert", attention_probs_dropout_prob=0.3, hidden_dropout_prob=0.0)
        integration.use(model, CLUSTERED).train()
        if again:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(5)
        states(model, batch()).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_generating_is_refused():
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=1)
    model = transformers.GPT2LMHeadModel(config).eval()
    with pytest.raises(ValueError, match="GPT2LMHeadModel is causal"):
        integration.use(model, "dense")
    model.set_attn_implementation("lshformer")
    with pytest.raises(ValueError, match="causal"):
        model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=2, do_sample=False)


@needs_five
@pytest.mark.parametrize("attention", ["dense", CLUSTERED], ids=["dense", "clustered"])
def test_rows_of_padding_alone_change_no_other(attention):
    model = integration.use(make("Bert"), attention)
    inputs = batch((60, 0, 41), 60)
    out = model(**inputs).last_hidden_state
    out.square().sum().backward()
    assert out.isfinite().all() and all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    kept = {name: x[[0, 2]] for name, x in inputs.items()}
    assert (states(model, kept) - out[inputs["attention_mask"].bool()]).abs().max() <= 1e-5 * out.abs().max()
    nothing = model(inputs["input_ids"], attention_mask=torch.zeros(3, 60)).last_hidden_state
    assert nothing.isfinite().all()
    ones = model(inputs["input_ids"], attention_mask=torch.ones(3, 60)).last_hidden_state
    assert torch.equal(ones, model(inputs["input_ids"]).last_hidden_state)


@needs_five
@pytest.mark.parametrize("family", ["Bert", "ModernBert", "Albert"])
def test_batches_of_one(family):
    model = integration.use(make(family), CLUSTERED)
    inputs = batch((90,), 100)
    alone = {name: x[:, :90] for name, x in inputs.items()}
    assert (states(model, inputs) - states(model, alone)).abs().max() <= 1e-5
    single = model(torch.tensor([[5]])).last_hidden_state
    assert single.shape == (1, 1, 64) and single.isfinite().all()


@needs_five
def test_a_mask_that_is_written_to_is_read_again():
    model = integration.use(make("Bert"), "dense")
    inputs = batch((40, 25), 40)
    mask = inputs["attention_mask"].bool()
    with torch.no_grad():
        first = model(inputs["input_ids"], attention_mask=mask).last_hidden_state
        mask[1, 10:] = False
        second = model(inputs["input_ids"], attention_mask=mask).last_hidden_state
        fresh = model(inputs["input_ids"], attention_mask=mask.clone()).last_hidden_state
    assert torch.equal(second, fresh) and not torch.equal(first[1, :10], second[1, :10])


class Layer(torch.nn.Module):
    """A layer's module, as far as attention_forward looks at it."""

    is_causal = False

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.BertConfig()
        self._lshformer = _models.Held(layer=_models.Layer('"dense"'))


def attend(mask=None, batch_size=3, length=40, **options):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(batch_size, 2, length, 16, generator=generator) for _ in range(3)]
    return integration.attention_forward(Layer(), *inputs, mask, **options)[0]


@pytest.mark.parametrize("batch_size,length", [(0, 7), (3, 0), (0, 0)])
def test_batches_of_nothing(batch_size, length):
    """Most models cannot shape such a batch. Their attention can."""
    none = attend(batch_size=batch_size, length=length)
    assert none.shape == (batch_size, length, 2, 16)
    mask = torch.ones(batch_size, length, dtype=torch.bool)
    assert attend(mask, batch_size=batch_size, length=length).shape == none.shape
    assert attend(~mask, batch_size=batch_size, length=length).shape == none.shape


def test_masks_as_they_are_added_to_scores():
    """Of shape [batch, 1, 1, length], as models of older versions hand them down, they are padding."""
    mask = batch()["attention_mask"].bool()
    expected = attend(mask)
    assert torch.equal(attend(mask[:, None, None]), expected)
    for least in (torch.finfo(torch.float32).min, float("-inf"), -1e9):
        added = torch.zeros(mask.shape).masked_fill(~mask, least)[:, None, None]
        assert torch.equal(attend(added), expected)
        added.zero_()
        assert torch.equal(attend(added), attend())
    with pytest.raises(ValueError, match=r"attention_mask\[0\] is not padding: it adds other numbers"):
        attend(torch.full((3, 1, 1, 40), -1.0))
    inputs = [torch.randn(3, 2, 40, 16) for _ in range(3)]

    layer = Layer()

    def run(given):
        return integration.attention_forward(layer, *inputs, given)[0]

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for given in (mask[:, None, None], torch.where(mask, 0.0, -1e9)[:, None, None]):
        assert torch.equal(compiled(given)[mask], run(mask)[mask])
    with pytest.raises(Exception, match="offsets ascend"):
        compiled(torch.full((3, 1, 1, 40), -1.0))


@pytest.mark.parametrize("shape", [(3, 1, 40, 40), (3, 2, 1, 40), (1, 1, 1, 40), (3, 39), (40, 40), (3, 40, 40)])
def test_masks_of_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"a mask of shape \[.*\] \(bool\) is not padding, expected \[3, 40\]"):
        attend(torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    "option,message",
    [
        ({"softcap": 50.0}, "scores with a soft cap are not computed"),
        ({"s_aux": torch.zeros(2)}, "attention sinks are not computed"),
        ({"position_bias": torch.zeros(1, 2, 40, 40)}, "a position bias"),
        ({"head_mask": torch.ones(2)}, "masks of heads are not applied"),
        ({"cu_seq_lens_q": torch.tensor([0, 20, 40])}, "sequences that the caller packed are not told apart"),
        ({"seq_idx": torch.zeros(1, 40)}, "sequences that the caller packed are not told apart"),
        ({"output_attentions": True}, "attention probabilities are never formed"),
        ({"is_causal": True}, "Layer is causal"),
        ({"indices": torch.zeros(1, 40)}, "Layer hands its attention 'indices', which is not known here"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_changes_attention_is_never_passed_over(option, message):
    with pytest.raises(ValueError, match=message):
        attend(**option)
    assert torch.equal(attend(position_ids=torch.arange(40)[None], use_cache=False, softcap=None), attend())


def test_keys_that_are_not_the_queries_own_are_refused():
    query, short = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 5, 16)
    with pytest.raises(ValueError, match="8 queries and 5 keys: cross-attention or a cache"):
        integration.attention_forward(Layer(), query, short, short, None)
    with pytest.raises(ValueError, match=r"keys of shape \[1, 2, 8, 16\] and values of \[1, 2, 8, 8\]"):
        integration.attention_forward(Layer(), query, query, query[..., :8], None)


@needs_five
def test_packed_batches_are_refused():
    model = integration.use(make("Bert"), "dense")
    ids = torch.randint(4, 120, (1, 40))
    with pytest.raises(ValueError, match="sequences that the caller packed"):
        model(ids, cu_seq_lens_q=torch.tensor([0, 20, 40]), cu_seq_lens_k=torch.tensor([0, 20, 40]))


@needs_five
def test_an_encoder_with_position_biases_is_refused():
    config = transformers.T5Config(
        d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2, vocab_size=50, is_encoder_decoder=False, use_cache=False
    )
    with pytest.raises(ValueError, match="position bias|has a decoder|does not go through"):
        integration.use(transformers.T5EncoderModel(config).eval(), "dense")(torch.tensor([[3, 4]]))


@pytest.mark.parametrize(
    "module,there", [("transformers", False), ("transformers", True), ("sentence_transformers", False)]
)
def test_without_transformers_there_is_one_import_error(tmp_path, module, there):
    if there:
        (tmp_path / "transformers").mkdir()
        (tmp_path / "transformers" / "__init__.py").write_text("__version__ = '4.30.0'\n")
        hide = f"sys.path.insert(0, {str(tmp_path)!r})"
    else:
        hide = "sys.modules['transformers'] = None"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {hide}; import lshformer; import lshformer.{module}"],
        capture_output=True, text=True,
    )
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1 and last.startswith("ImportError: lshformer: needs transformers 4.57 or newer, and "), last
    assert ("this one is older" if there else "there is none") in last
