#!/usr/bin/env python3
"""Makes tests/golden/models: small HF checkpoints with random weights and what HF computes from them.

    pip install torch transformers safetensors numpy
    python3 tools/make_model_golden.py [--output tests/golden/models]

Every folder holds config.json, model.safetensors, batch.jsonl (the input of `lshformer inspect`) and expected.safetensors:
hidden states, attention maps, pooler output, logits, the loss of the whole batch and its gradient by every parameter,
computed in float64, each sequence alone and unpadded, rounded once to float32. Weights are large (deviation 0.3 and more),
so that attention is far from uniform and the activation is used beyond its linear part.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (AlbertConfig, AlbertForMaskedLM, AlbertForMultipleChoice, AlbertForPreTraining, AlbertForQuestionAnswering,
                          AlbertForSequenceClassification, AlbertModel, BertConfig, BertForMaskedLM, BertForMultipleChoice, BertForPreTraining, BertForQuestionAnswering,
                          BertForSequenceClassification, BertModel)

LENGTHS = [1, 2, 17, 9, 24]
OPTIONS = [3, 2]  # multiple choice: the first three sequences are one example's, the others another's


def make_albert_config(**changes):
    values = dict(vocab_size=97, embedding_size=12, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
                  intermediate_size=40, max_position_embeddings=24, type_vocab_size=2, attn_implementation="eager")
    return AlbertConfig(**{**values, **changes})


def make_config(**changes):
    values = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
                  max_position_embeddings=24, type_vocab_size=2, attn_implementation="eager")
    return BertConfig(**{**values, **changes})


def make_model(cls, config, seed):
    torch.manual_seed(seed)
    model = cls(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if "LayerNorm.weight" in name or "layer_norm.weight" in name:
                parameter.copy_(1 + 0.3 * noise)
            elif "embeddings" in name and "LayerNorm" not in name:
                parameter.copy_(noise)
            else:
                parameter.copy_(0.35 * noise)
            parameter.copy_(parameter.float().double())      # what the file will hold
    return model


def pair_names(config):
    """What the family calls the logits and the label of its sentence pairs."""
    return ("sop_logits", "sentence_order_label") if config.model_type == "albert" else ("seq_relationship_logits", "next_sentence_label")


def make_batch(config, rng, labels):
    lines = []
    for length in LENGTHS:
        border = int(rng.integers(1, length + 1))
        line = {"input_ids": rng.integers(0, config.vocab_size, length).tolist(),
                "token_type_ids": [0] * border + [1] * (length - border)}
        line["input_ids"][-1] = config.pad_token_id if length > 2 else line["input_ids"][-1]   # the row without gradient
        if labels in ("tokens", "both"):
            chosen = rng.random(length) < 0.4
            line["labels"] = [int(rng.integers(config.vocab_size)) if c else -100 for c in chosen]
            if labels == "both":
                line[pair_names(config)[1]] = int(rng.integers(2))
        elif labels == "class":
            line["labels"] = int(rng.integers(config.num_labels))
        elif labels == "flags":
            line["labels"] = rng.integers(0, 2, config.num_labels).astype(float).tolist()
        elif labels == "value":
            line["labels"] = float(np.float32(rng.normal()))
        elif labels == "span":           # sometimes past the end, where HF ignores it
            line["start_positions"], line["end_positions"] = (int(p) for p in rng.integers(0, length + 2, 2))
        lines.append(line)
    if labels == "choice":               # a line is an example
        border = np.cumsum([0] + OPTIONS)
        lines = [{**{key: [line[key] for line in lines[begin:end]] for key in ("input_ids", "token_type_ids")},
                  "labels": int(rng.integers(1, end - begin))} for begin, end in zip(border, border[1:])]
    return lines


def sequences_of(lines, labels):
    if labels != "choice":
        return lines
    return [{"input_ids": ids, "token_type_ids": types} for line in lines for ids, types in zip(line["input_ids"], line["token_type_ids"])]


def choice_loss(model, logits, lines):
    """Mean over examples of the cross-entropy of their options' scores; HF's own, padded, beside it."""
    terms = []
    for line, scores in zip(lines, logits.split(OPTIONS)):
        terms.append(torch.nn.functional.cross_entropy(scores[None], torch.tensor([line["labels"]])))
        longest = max(len(ids) for ids in line["input_ids"])
        padded = {key: torch.tensor([[row + [0] * (longest - len(row)) for row in line[key]]]) for key in ("input_ids", "token_type_ids")}
        mask = torch.tensor([[[1] * len(row) + [0] * (longest - len(row)) for row in line["input_ids"]]])
        own = model(**padded, attention_mask=mask, labels=torch.tensor([line["labels"]])).loss
        assert torch.allclose(own, terms[-1]), (own, terms[-1])
    return torch.stack(terms).mean()


def loss_sum(logits, line, labels):
    """Loss of one sequence, summed, and how many terms it has."""
    if labels == "span":                 # of starts and of ends
        terms = [torch.nn.functional.cross_entropy(z, torch.tensor([min(max(line[key], 0), z.shape[1])]), reduction="sum", ignore_index=z.shape[1])
                 for z, key in ((logits[0], "start_positions"), (logits[1], "end_positions"))]
        return torch.stack(terms), np.array([line[key] < logits[0].shape[1] for key in ("start_positions", "end_positions")], dtype=int)
    if labels == "tokens":
        wanted = torch.tensor(line["labels"])
        return torch.nn.functional.cross_entropy(logits[0], wanted, reduction="sum", ignore_index=-100), int((wanted >= 0).sum())
    if labels == "class":
        return torch.nn.functional.cross_entropy(logits, torch.tensor([line["labels"]]), reduction="sum"), 1
    if labels == "flags":                # of every label
        wanted = torch.tensor([line["labels"]], dtype=torch.float64)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum"), wanted.numel()
    return (logits[0, 0] - line["labels"]) ** 2, 1


def expected(model, lines, labels):
    out, parts, total, count, pair_total = {}, {}, 0.0, 0, 0.0
    for index, line in enumerate(sequences_of(lines, labels)):
        wrapped = (lambda ids: torch.tensor([[ids]])) if labels == "choice" else (lambda ids: torch.tensor([ids]))
        result = model(input_ids=wrapped(line["input_ids"]), token_type_ids=wrapped(line["token_type_ids"]),
                       output_hidden_states=True, output_attentions=True)
        # Of ALBERT's inner layers HF 5 gives each, as lshformer does, HF 4 the last of a layer.
        visits = model.config.num_hidden_layers * getattr(model.config, "inner_group_num", 1)
        assert len(result.hidden_states) == visits + 1
        for level, hidden in enumerate(result.hidden_states):
            parts.setdefault(f"hidden_states.{level}", []).append(hidden[0])
        for layer, attention in enumerate(result.attentions):
            out[f"attentions.{layer}.{index}"] = attention[0]
        base = model.base_model
        if base.pooler is not None:
            pooled = base.pooler(result.hidden_states[-1]) if model.config.model_type == "bert" else \
                torch.tanh(base.pooler(result.hidden_states[-1][:, 0]))
            parts.setdefault("pooler_output", []).append(pooled)
        if labels == "both":
            parts.setdefault("logits", []).append(result.prediction_logits[0])
            pair_logits, pair_label = pair_names(model.config)
            parts.setdefault(pair_logits, []).append(result[pair_logits])
            term, terms = loss_sum(result.prediction_logits, line, "tokens")
            total, count = total + term, count + terms
            wanted = torch.tensor([line[pair_label]])
            pair_total = pair_total + torch.nn.functional.cross_entropy(result[pair_logits], wanted)
        elif labels == "span":
            parts.setdefault("start_logits", []).append(result.start_logits[0])
            parts.setdefault("end_logits", []).append(result.end_logits[0])
            term, terms = loss_sum((result.start_logits, result.end_logits), line, labels)
            total, count = total + term, count + terms
        elif labels == "choice":
            parts.setdefault("logits", []).append(result.logits[0])
        elif labels:
            parts.setdefault("logits", []).append(result.logits[0] if labels == "tokens" else result.logits)
            term, terms = loss_sum(result.logits, line, labels)
            total, count = total + term, count + terms
            if labels in ("value", "flags"):   # HF's own loss of one example is its mean
                own = model(input_ids=torch.tensor([line["input_ids"]]), token_type_ids=torch.tensor([line["token_type_ids"]]),
                            labels=torch.tensor([line["labels"]], dtype=torch.float64)).loss
                assert torch.allclose(own, term / terms, rtol=1e-12), (own, term)
    for name, tensors in parts.items():
        out[name] = torch.cat(tensors)
    out["last_hidden_state"] = out[f"hidden_states.{visits}"]
    if labels:
        out["loss"] = choice_loss(model, out["logits"], lines) if labels == "choice" else \
            (total / torch.as_tensor(count)).mean() + pair_total / len(lines)
        out["loss"].backward()
        for name, parameter in model.named_parameters():
            out[f"gradients.{name}"] = parameter.grad
    out = {name: tensor.detach().float().contiguous().clone() for name, tensor in out.items()}
    out["cu_seqlens"] = torch.tensor(np.cumsum([0] + LENGTHS), dtype=torch.int32)
    return out


def rename(path, change):
    save_file({change(name): tensor for name, tensor in load_file(path).items()}, path, metadata={"format": "pt"})


def gamma_beta(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


CASES = [  # name, class, config, labels, names in the file
    ("masked_lm", BertForMaskedLM, {}, "tokens", None),
    ("masked_lm_gelu_new", BertForMaskedLM, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}, "tokens", None),
    ("classification", BertForSequenceClassification, {"num_labels": 3, "hidden_size": 20, "num_attention_heads": 1}, "class", None),
    ("classification_gamma_beta", BertForSequenceClassification, {"num_labels": 2, "num_hidden_layers": 1}, "class", gamma_beta),
    ("regression", BertForSequenceClassification, {"num_labels": 1, "num_hidden_layers": 1}, "value", None),
    ("encoder", BertModel, {"num_hidden_layers": 1}, None, None),   # saved without the prefix "bert."
    ("pretraining", BertForPreTraining, {"num_hidden_layers": 1}, "both", None),
    ("question_answering", BertForQuestionAnswering, {}, "span", None),
    ("regression_deep", BertForSequenceClassification, {"num_labels": 1, "problem_type": "regression", "hidden_size": 16,
                                                        "num_attention_heads": 2}, "value", None),
    ("albert_masked_lm", AlbertForMaskedLM, {"hidden_act": "gelu"}, "tokens", None),
    ("albert_groups", AlbertForMaskedLM, {"num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 2,
                                          "hidden_size": 12}, "tokens", None),   # the map stands although E = H
    ("albert_pretraining", AlbertForPreTraining, {"num_hidden_layers": 2}, "both", None),
    ("albert_classification", AlbertForSequenceClassification, {"num_labels": 3, "num_hidden_groups": 3}, "class", None),
    ("albert_question_answering", AlbertForQuestionAnswering, {}, "span", None),
    ("albert_encoder", AlbertModel, {"num_hidden_layers": 2, "layer_norm_eps": 1e-3}, None, None),
    ("multiple_choice", BertForMultipleChoice, {"num_hidden_layers": 1}, "choice", None),
    ("albert_multiple_choice", AlbertForMultipleChoice, {"num_hidden_layers": 2}, "choice", None),
    ("multi_label", BertForSequenceClassification, {"num_labels": 4, "problem_type": "multi_label_classification", "num_hidden_layers": 1,
                                                    "hidden_size": 16, "num_attention_heads": 2}, "flags", None),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/models")
    parser.add_argument("--only", choices=[case[0] for case in CASES], help="this case alone")
    args = parser.parse_args()
    for seed, (name, cls, changes, labels, spelling) in enumerate(CASES):
        if args.only not in (None, name):
            continue
        folder = args.output / name
        folder.mkdir(parents=True, exist_ok=True)
        config = (make_albert_config if cls.__name__.startswith("Albert") else make_config)(**changes)
        model = make_model(cls, config, seed)
        lines = make_batch(config, np.random.default_rng(seed), labels)
        tensors = expected(model, lines, labels)
        model.float().save_pretrained(folder)
        if spelling:
            rename(folder / "model.safetensors", spelling)
        (folder / "batch.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        save_file(tensors, folder / "expected.safetensors")
        for extra in folder.glob("generation_config.json"):
            extra.unlink()
        print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    main()
