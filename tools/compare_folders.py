#!/usr/bin/env python3
"""Folders that transformers writes, read here, and folders that lshformer writes from them, read there.

    pip install torch transformers safetensors sentencepiece
    python3 tools/compare_folders.py --program build/release/bin/lshformer [--folder DIR] [--lines 3000] [--seed 1]

Makes small classifiers with random weights by the installed transformers (BERT and ALBERT; plain, with added tokens of all
kinds, multi-label, integer label names, half precision, sharded), then, for each of three folders: as it was saved, after
`lshformer train` of three steps, and after `lshformer convert --attention dense`:

    tokens   lines of which input_ids differ between transformers' fast tokenizer and `lshformer tokenizer encode`
    offsets  lines of which offsets differ
    scores   the largest difference of a probability between transformers and `lshformer predict`

One row a folder; status 1 where a token or an offset differs or a score is 1e-5 or more apart. Run it once with each release
of transformers: versions and the seed are printed.
"""
import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from transformers import (AlbertConfig, AlbertForSequenceClassification, AutoModelForSequenceClassification, AutoTokenizer,
                          BertConfig, BertForSequenceClassification)

from compare_tokenizers import FLAGGED, STRINGS, bert_base, hard_lines


def bert_tokenizer(lower_case, folder):
    bert_base(str(folder), do_lower_case=lower_case)
    return AutoTokenizer.from_pretrained(folder)


def albert_tokenizer(program, folder, seed):
    """Pieces that lshformer learns from such lines."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    text = folder.parent / "text.txt"
    text.write_text("\n".join(line.replace("\n", " ").replace("\0", " ") for line in hard_lines(4000, seed + 98)), encoding="utf-8")
    run(program, "tokenizer", "train", "--type", "unigram", "--input", text, "--vocab_size", 4800, "--output_dir", folder,
        "--overwrite_output_dir", "--log_level", "error")
    (folder / "config.json").write_text(json.dumps({"model_type": "albert"}))
    return AutoTokenizer.from_pretrained(folder)


def add_tokens(tokenizer):
    tokenizer.add_tokens(STRINGS)
    tokenizer.add_tokens(FLAGGED)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<e1>"]})


def make_model(family, tokenizer, seed, **changes):
    sizes = dict(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                 max_position_embeddings=512, pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(seed)
    if family == "albert":
        model = AlbertForSequenceClassification(AlbertConfig(**sizes, embedding_size=16, **changes))
    else:
        model = BertForSequenceClassification(BertConfig(**sizes, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return model.eval()


def cases(program, folder, seed):
    """Yields name, tokenizer, model, arguments of save_pretrained."""
    def bert(name, lower_case=True):
        return bert_tokenizer(lower_case, folder / "tokenizers" / name)

    def albert(name):
        return albert_tokenizer(program, folder / "tokenizers" / name, seed)

    integers = dict(id2label={0: 0, 1: 1}, label2id={0: 0, 1: 1})
    several = dict(num_labels=3, problem_type="multi_label_classification",
                   id2label={0: "toxic", 1: "threat", 2: "insult"}, label2id={"toxic": 0, "threat": 1, "insult": 2})
    for family, make in (("bert", bert), ("albert", albert)):
        for name, added, changes, saving in (
                ("plain", False, {}, {}), ("added", True, {}, {}), ("multi_label", False, several, {}),
                ("integer_labels", False, integers, {}), ("half", True, {}, {"half": True}),
                ("sharded", True, {}, {"max_shard_size": "20KB"})):
            tokenizer = make(f"{family}-{name}")
            if added:
                add_tokens(tokenizer)
            yield f"{family}-{name}", tokenizer, make_model(family, tokenizer, seed, **changes), dict(saving)
    cased = bert("bert-cased", lower_case=False)
    add_tokens(cased)
    yield "bert-cased-added", cased, make_model("bert", cased, seed), {}


def run(program, *arguments, bad_lines=False):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0 and not (bad_lines and done.returncode == 1):
        raise RuntimeError(f"{' '.join(map(str, arguments[:2]))}: status {done.returncode}: {done.stderr.strip()}")
    return done


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def compare(program, model_folder, inputs, texts, work):
    """Differing lines of ids and offsets, and the largest difference of a probability."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForSequenceClassification.from_pretrained(model_folder, dtype=torch.float32).eval()
    if model.config.problem_type == "multi_label_classification":
        probabilities = torch.sigmoid
    else:
        probabilities = lambda logits: torch.softmax(logits, -1)
    encoded, scored = work / "encoded.jsonl", work / "scored.jsonl"
    run(program, "tokenizer", "encode", "--tokenizer", model_folder, "--jsonl", "--input", inputs, "--output", encoded)
    run(program, "predict", "--task", "text-classification", "--model_name_or_path", model_folder, "--input", inputs,
        "--output", scored, bad_lines=True)
    ids = offsets = 0
    first = ""
    worst = 0.0
    for text, ours, scores in zip(texts, lines_of(encoded), lines_of(scored), strict=True):
        theirs = tokenizer(*text, return_offsets_mapping=True)
        if theirs["input_ids"] != ours["input_ids"]:
            ids += 1
            first = first or f"{text!r}: {tokenizer.convert_ids_to_tokens(theirs['input_ids'])} here {ours['tokens']}"
        elif [list(pair) for pair in theirs["offset_mapping"]] != ours["offsets"]:
            offsets += 1
            first = first or f"{text!r}: {theirs['offset_mapping']} here {ours['offsets']}"
        if "error" in scores and len(theirs["input_ids"]) <= 3:
            continue  # texts without a token, which predict refuses
        # AlbertTokenizer of transformers 5 gives token types only on demand, so that its models see none.
        theirs = tokenizer(*text, return_tensors="pt", truncation=True, max_length=model.config.max_position_embeddings,
                           return_token_type_ids=True)
        with torch.no_grad():
            expected = probabilities(model(**theirs).logits[0])
        names = {str(name): index for index, name in model.config.id2label.items()}
        for result in scores["results"]:
            worst = max(worst, abs(result["score"] - expected[names[str(result["label"])]].item()))
    return ids, offsets, worst, first


def write_rows(path, texts, labels, several):
    """Training rows: a label of the model each, as the folder's kind of head reads them."""
    with path.open("w", encoding="utf-8") as file:
        for index, text in enumerate(texts[:24]):
            row = dict(zip(("sentence1", "sentence2"), text)) if len(text) == 2 else {"sentence1": text[0], "sentence2": None}
            row |= {"labels": labels[:index % (len(labels) + 1)]} if several else {"label": labels[index % len(labels)]}
            file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/lshformer")
    parser.add_argument("--folder", type=Path, default=Path("folders"))
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a case's name")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, torch {torch.__version__}, "
          f"seed {options.seed}, {options.lines} lines")
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = hard_lines(options.lines, options.seed)
    texts = [(line, lines[i - 1]) if i % 4 == 3 else (line,) for i, line in enumerate(lines)]
    inputs = folder / "lines.jsonl"
    inputs.write_text("".join(json.dumps(dict(zip(("text", "text_pair"), text))) + "\n" for text in texts))
    bad = False
    print(f"{'folder':44} {'tokens':>7} {'offsets':>8} {'scores':>9}")
    for name, tokenizer, model, saving in cases(options.program, folder, options.seed):
        if options.only not in name:
            continue
        saved = folder / name
        shutil.rmtree(folder / f"{name}-converted", ignore_errors=True)  # convert writes into new folders alone
        if saving.pop("half", False):
            model = model.half()
        tokenizer.save_pretrained(saved)
        model.save_pretrained(saved, **saving)
        rows = folder / "rows.jsonl"
        labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
        write_rows(rows, texts, labels, model.config.problem_type == "multi_label_classification")
        steps = {
            "saved": lambda: saved,
            "trained": lambda: run(options.program, "train", "--task", "text-classification", "--model_name_or_path", saved,
                                   "--train_file", rows, "--output_dir", folder / f"{name}-trained", "--overwrite_output_dir",
                                   "--max_steps", 3, "--max_seq_length", 128, "--no_progress") and folder / f"{name}-trained",
            "converted": lambda: run(options.program, "convert", "--model_name_or_path", saved, "--output_dir",
                                     folder / f"{name}-converted", "--attention", "dense") and folder / f"{name}-converted",
        }
        for step, make in steps.items():
            try:
                ids, offsets, worst, first = compare(options.program, make(), inputs, texts, folder)
            except Exception as error:  # a folder that one side refuses is a row of the table too
                print(f"{name + ' ' + step:44} {type(error).__name__}: {str(error)[:300]}")
                bad = True
                continue
            print(f"{name + ' ' + step:44} {ids:7} {offsets:8} {worst:9.1e}" + (f"   {first[:400]}" if first else ""), flush=True)
            bad = bad or ids > 0 or offsets > 0 or not worst < 1e-5
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
