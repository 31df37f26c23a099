#!/usr/bin/env python3
"""Writes tests/golden/bpe: small byte-level BPE folders, and XLM-R's, and what transformers 5 gives of hard lines.

    PYTHON tools/make_bpe_golden.py

PYTHON has transformers 5 and sentencepiece. Each FILE.jsonl begins with {"files", "settings", "changes"}: which vocabulary it is of
(roberta: vocab.json and merges.txt; modernbert: tokenizer.json; xlm_roberta: the pieces of tests/golden/sentencepiece as
sentencepiece.bpe.model), the tokenizer_config.json beside it, and what tokenizer.json has in place of its own. Lines follow:
{"text", "pair", "ids", "types", "offsets", "decoded", "plain"}.
"""

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare_tokenizers import hard_lines  # noqa: E402
from long_text_folders import LATER, modernbert_file, roberta_files  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden")
SPLIT = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": LATER % "{1,3}"}, "behavior": "Isolated", "invert": False},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}}  # fmt: skip
NAMES = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False, "__type": "AddedToken"}
VARIANTS = {
    "roberta": ("roberta", {"tokenizer_class": "RobertaTokenizer", "mask_token": MASK}, {}),
    "roberta_space": ("roberta", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}, {}),
    "modernbert": ("modernbert", {"tokenizer_class": "PreTrainedTokenizerFast", **NAMES}, {}),
    "modernbert_split": ("modernbert", {"tokenizer_class": "TokenizersBackend", **NAMES}, SPLIT),
    "xlm_roberta": ("xlm_roberta", {"tokenizer_class": "XLMRobertaTokenizer"}, {}),
}


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    folder = os.path.join(GOLDEN, "bpe")
    os.makedirs(folder, exist_ok=True)
    text = [line for line in hard_lines(1500, 98) if len(line) < 200]
    lines = [line for line in hard_lines(120, 8) if len(line) < 250] + ["Hello <mask> world, I'LL 12345", "a  <mask>", "tabs\t\tand\r\n\n  breaks", "the</s>cat"]
    with tempfile.TemporaryDirectory() as root:
        made = {name: os.path.join(root, name) for name in ("roberta", "modernbert", "xlm_roberta")}
        roberta_files(made["roberta"], text, size=520)
        modernbert_file(made["modernbert"], text, size=500)
        os.makedirs(made["xlm_roberta"])
        shutil.copy(os.path.join(GOLDEN, "sentencepiece", "spiece.model"), os.path.join(made["xlm_roberta"], "sentencepiece.bpe.model"))
        write(os.path.join(made["xlm_roberta"], "config.json"), json.dumps({"model_type": "xlm-roberta"}))
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(os.path.join(made["roberta"], name), folder)
        whole = json.load(open(os.path.join(made["modernbert"], "tokenizer.json"), encoding="utf-8"))
        write(os.path.join(folder, "tokenizer.json"), json.dumps(whole, ensure_ascii=False))
        for name, (files, settings, changes) in VARIANTS.items():
            write(os.path.join(made[files], "tokenizer_config.json"), json.dumps(settings))
            if files == "modernbert":
                write(os.path.join(made[files], "tokenizer.json"), json.dumps({**whole, **changes}))
            tokenizer = AutoTokenizer.from_pretrained(made[files])
            with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
                file.write(json.dumps({"files": files, "settings": settings, "changes": changes}) + "\n")
                for i, line in enumerate(lines):
                    pair = None if i % 2 or not lines[i - 1] else lines[i - 1]
                    encoded = tokenizer(line, pair, return_offsets_mapping=True, return_token_type_ids=True)
                    ids = encoded["input_ids"]
                    row = {"text": line, "pair": pair, "ids": ids, "types": encoded["token_type_ids"], "offsets": encoded["offset_mapping"],
                           "decoded": tokenizer.decode(ids), "plain": tokenizer.decode(ids, skip_special_tokens=True)}  # fmt: skip
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
