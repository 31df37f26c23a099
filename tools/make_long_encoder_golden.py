#!/usr/bin/env python3
"""Adds to tests/golden/models the families for long text: small HF checkpoints with random weights and what HF computes.

    pip install torch 'transformers>=5.24' safetensors numpy
    python3 tools/make_long_encoder_golden.py [--output tests/golden/models] [--only CASE]

Folders are as those of make_model_golden.py, which has the losses. Cases named `older` hold the same numbers as the case
they follow, under the names and keys of the code that came before transformers 5. Attention maps are kept of the bare
encoders alone.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_model_golden as golden

golden.LENGTHS = LENGTHS = [1, 2, 13, 9, 21]      # local layers see 2 or 3 tokens on each side
SIZES = dict(vocab_size=67, attn_implementation="eager")


def nomic(**changes):
    values = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, type_vocab_size=2,
                  max_position_embeddings=24, rope_parameters={"rope_type": "default", "rope_theta": 100.0})
    return transformers.NomicBertConfig(**SIZES, **{**values, **changes})


def modern(**changes):
    values = dict(hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=12, max_position_embeddings=24,
                  local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    return transformers.ModernBertConfig(**SIZES, **{**values, **changes})


def roberta(cls=transformers.RobertaConfig, **changes):
    values = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, type_vocab_size=1,
                  max_position_embeddings=25, pad_token_id=3, layer_norm_eps=1e-5)
    return cls(**SIZES, **{**values, **changes})


def xlm_roberta(**changes):
    return roberta(transformers.XLMRobertaConfig, **{"pad_token_id": 1, **changes})


def distil(**changes):
    values = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=20, max_position_embeddings=24)
    return transformers.DistilBertConfig(**SIZES, **{**values, **changes})


def make_model(cls, config, seed):
    torch.manual_seed(seed)
    model = cls(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if parameter.dim() == 1 and name.endswith("weight"):      # of LayerNorms
                parameter.copy_(1 + 0.3 * noise)
            elif "embeddings" in name and parameter.dim() == 2:
                parameter.copy_(noise)
            else:
                parameter.copy_(0.4 * noise)
            parameter.copy_(parameter.float().double())               # what the file will hold
    return model


def make_batch(config, rng, labels):
    lines = golden.make_batch(config, rng, labels)
    for line in golden.sequences_of(lines, labels):
        ids, types = line["input_ids"], line["token_type_ids"]
        if len(ids) > 10:
            ids[len(ids) // 2] = config.pad_token_id                    # RoBERTa's positions pass it over
        if getattr(config, "type_vocab_size", 2) == 1:
            types[:] = [0] * len(types)
    return lines


def expected(model, lines, labels):
    out, parts, total, count = {}, {}, 0.0, 0
    takes_types = hasattr(model.config, "type_vocab_size")
    bare = labels is None
    wrap = (lambda values: torch.tensor([[values]])) if labels == "choice" else (lambda values: torch.tensor([values]))
    for index, line in enumerate(golden.sequences_of(lines, labels)):
        inputs = {"input_ids": wrap(line["input_ids"]), "attention_mask": wrap([1] * len(line["input_ids"]))}
        if takes_types:
            inputs["token_type_ids"] = wrap(line["token_type_ids"])
        result = model(**inputs, output_hidden_states=True, output_attentions=bare)
        for level, hidden in enumerate(result.hidden_states):
            parts.setdefault(f"hidden_states.{level}", []).append(hidden[0])
        for layer, attention in enumerate(result.attentions if bare else []):
            out[f"attentions.{layer}.{index}"] = attention[0]
        pooler = getattr(model.base_model, "pooler", None)
        if pooler is not None:
            parts.setdefault("pooler_output", []).append(pooler(result.hidden_states[-1]))
        if labels == "span":
            parts.setdefault("start_logits", []).append(result.start_logits[0])
            parts.setdefault("end_logits", []).append(result.end_logits[0])
            term, terms = golden.loss_sum((result.start_logits, result.end_logits), line, labels)
            total, count = total + term, count + terms
        elif labels == "choice":
            parts.setdefault("logits", []).append(result.logits[0])
        elif labels:
            parts.setdefault("logits", []).append(result.logits[0] if labels == "tokens" else result.logits)
            term, terms = golden.loss_sum(result.logits, line, labels)
            total, count = total + term, count + terms
    for name, tensors in parts.items():
        out[name] = torch.cat(tensors)
    out["last_hidden_state"] = out[f"hidden_states.{len(result.hidden_states) - 1}"]
    if labels:
        if labels == "choice":
            out["loss"] = torch.stack([torch.nn.functional.cross_entropy(scores[None], torch.tensor([line["labels"]]))
                                       for line, scores in zip(lines, out["logits"].split(golden.OPTIONS))]).mean()
        else:
            out["loss"] = (total / torch.as_tensor(count)).mean()
        out["loss"].backward()
        words = model.get_input_embeddings().weight                # under its own name, not that of a decoder
        for name, parameter in model.base_model.named_parameters(prefix=model.base_model_prefix):
            out[f"gradients.{name}"] = parameter.grad
        for name, parameter in model.named_parameters():
            if parameter is not words:
                out[f"gradients.{name}"] = parameter.grad
    out = {name: tensor.detach().float().contiguous().clone() for name, tensor in out.items()}
    out["cu_seqlens"] = torch.tensor(np.cumsum([0] + LENGTHS), dtype=torch.int32)
    return out


def first_nomic_code(folder):
    """config.json and weights as nomic-ai's own code of the first checkpoints has them."""
    config = json.loads((folder / "config.json").read_text())
    old = {"architectures": ["NomicBertForPreTraining"], "model_type": "nomic_bert", "activation_function": "swiglu",
           "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "auto_map": {
               "AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
               "AutoModelForMaskedLM": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertForPreTraining"},
           "causal": False, "layer_norm_epsilon": config["layer_norm_eps"], "mlp_fc1_bias": False, "mlp_fc2_bias": False,
           "n_embd": config["hidden_size"], "n_head": config["num_attention_heads"], "n_inner": config["intermediate_size"],
           "n_layer": config["num_hidden_layers"], "n_positions": config["max_position_embeddings"], "pad_token_id": 0,
           "parallel_block": False, "prenorm": False, "qkv_proj_bias": False, "rotary_emb_base": 100, "rotary_emb_fraction": 1.0,
           "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "type_vocab_size": 2,
           "use_rms_norm": False, "vocab_size": config["vocab_size"]}
    (folder / "config.json").write_text(json.dumps(old, indent=2) + "\n")
    weights, joined = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        name = name.replace("nomic_bert.", "bert.").replace("bert.layers.", "bert.encoder.layers.")
        for new, code in (("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"), ("mlp.up_proj", "mlp.fc11"),
                          ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"),
                          ("post_mlp_layernorm", "norm2")):
            name = name.replace(new, code)
        for part, key in enumerate(("q_proj", "k_proj", "v_proj")):
            if f"self_attn.{key}" in name:
                joined.setdefault(name.replace(f"self_attn.{key}", "attn.Wqkv"), {})[part] = tensor
                break
        else:
            weights[name] = tensor
    weights.update({name: torch.cat([parts[i] for i in range(3)]) for name, parts in joined.items()})
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def flat_rotary_keys(folder):
    """config.json as transformers 4 writes ModernBERT's."""
    config = json.loads((folder / "config.json").read_text())
    rotary = config.pop("rope_parameters")
    config.pop("layer_types")
    config.update(global_rope_theta=rotary["full_attention"]["rope_theta"],
                  local_rope_theta=rotary["sliding_attention"]["rope_theta"], global_attn_every_n_layers=3)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


T = transformers
ROTARY = {"full_attention": {"rope_type": "linear", "rope_theta": 50.0, "factor": 4.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
BIASES = dict(norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, decoder_bias=True)
CASES = [  # name, class, config, labels, what becomes of the folder
    ("nomic_bert_masked_lm", T.NomicBertForMaskedLM, nomic, {}, "tokens", None),
    ("nomic_bert_classification", T.NomicBertForSequenceClassification, nomic, {"num_labels": 3, "layer_norm_eps": 1e-4}, "class", None),
    ("nomic_bert_encoder", T.NomicBertModel, nomic, {"rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}}, None, None),
    ("nomic_bert_dynamic", T.NomicBertForMaskedLM, nomic, {
        "num_hidden_layers": 1, "max_position_embeddings": 11, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 2.0}},
     "tokens", None),
    ("nomic_bert_older", T.NomicBertForMaskedLM, nomic, {"intermediate_size": 256, "hidden_size": 8, "num_hidden_layers": 1}, "tokens",
     first_nomic_code),
    ("modernbert_masked_lm", T.ModernBertForMaskedLM, modern, {}, "tokens", None),
    ("modernbert_older", T.ModernBertForMaskedLM, modern, {"decoder_bias": False}, "tokens", flat_rotary_keys),
    ("modernbert_classification", T.ModernBertForSequenceClassification, modern, {"num_labels": 3, "num_hidden_layers": 3}, "class", None),
    ("modernbert_mean", T.ModernBertForSequenceClassification, modern, {
        "num_labels": 1, "num_hidden_layers": 3, "classifier_pooling": "mean", "classifier_activation": "relu", "hidden_activation": "silu",
        "rope_parameters": ROTARY, "local_attention": 5, **BIASES}, "value", None),
    ("modernbert_multiple_choice", T.ModernBertForMultipleChoice, modern, {"num_hidden_layers": 2, "classifier_pooling": "mean"}, "choice", None),
    ("modernbert_question_answering", T.ModernBertForQuestionAnswering, modern, {"num_hidden_layers": 2}, "span", None),
    ("modernbert_encoder", T.ModernBertModel, modern, {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
     None, None),
    ("roberta_masked_lm", T.RobertaForMaskedLM, roberta, {"hidden_act": "relu"}, "tokens", None),
    ("roberta_classification", T.RobertaForSequenceClassification, roberta, {"num_labels": 3}, "class", None),
    ("roberta_multiple_choice", T.RobertaForMultipleChoice, roberta, {"num_hidden_layers": 1}, "choice", None),
    ("roberta_question_answering", T.RobertaForQuestionAnswering, roberta, {"num_hidden_layers": 1, "type_vocab_size": 2}, "span", None),
    ("roberta_encoder", T.RobertaModel, roberta, {"num_hidden_layers": 1}, None, None),
    ("xlm_roberta_masked_lm", T.XLMRobertaForMaskedLM, xlm_roberta, {"num_hidden_layers": 1}, "tokens", None),
    ("xlm_roberta_classification", T.XLMRobertaForSequenceClassification, xlm_roberta, {
        "num_hidden_layers": 1, "num_labels": 4, "problem_type": "multi_label_classification"}, "flags", None),
    ("distilbert_masked_lm", T.DistilBertForMaskedLM, distil, {"activation": "gelu"}, "tokens", None),
    ("distilbert_classification", T.DistilBertForSequenceClassification, distil, {"num_labels": 3, "activation": "relu"}, "class", None),
    ("distilbert_multiple_choice", T.DistilBertForMultipleChoice, distil, {"n_layers": 1}, "choice", None),
    ("distilbert_question_answering", T.DistilBertForQuestionAnswering, distil, {"n_layers": 1}, "span", None),
    ("distilbert_encoder", T.DistilBertModel, distil, {"n_layers": 1}, None, None),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/models")
    parser.add_argument("--only", choices=[case[0] for case in CASES], help="this case alone")
    args = parser.parse_args()
    for seed, (name, cls, make_config, changes, labels, finish) in enumerate(CASES, start=100):
        if args.only not in (None, name):
            continue
        folder = args.output / name
        folder.mkdir(parents=True, exist_ok=True)
        config = make_config(**changes)
        model = make_model(cls, config, seed)
        lines = make_batch(config, np.random.default_rng(seed), labels)
        tensors = expected(model, lines, labels)
        model.float().save_pretrained(folder)
        if finish:
            finish(folder)
        (folder / "batch.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        save_file(tensors, folder / "expected.safetensors")
        for extra in folder.glob("generation_config.json"):
            extra.unlink()
        print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    main()
