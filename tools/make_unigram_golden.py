#!/usr/bin/env python3
"""Writes tests/golden/unigram: ALBERT's tokenizer.json as transformers 5 saves it, and what it gives of hard lines.

    PYTHON tools/make_unigram_golden.py

PYTHON has transformers 5 and sentencepiece. Pieces are those of tests/golden/sentencepiece. Each FILE.jsonl begins with the
tokenizer_config.json under which the lines after it were encoded: {"text", "ids", "offsets", "decoded"}. "decoded" is null where
a token is another one normalised: transformers 5 decodes it so, 4 as it was added.
"""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare_tokenizers import FLAGGED, STRINGS, hard_lines  # noqa: E402
from transformers import AlbertTokenizer  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden")
# Settings that go over the file.
VARIANTS = {
    "as_saved": {},
    "cased": {"do_lower_case": False},
    "accents": {"keep_accents": True, "add_prefix_space": False},
}


def main():
    folder = os.path.join(GOLDEN, "unigram")
    os.makedirs(folder, exist_ok=True)
    tokenizer = AlbertTokenizer.from_pretrained(os.path.join(GOLDEN, "sentencepiece"))
    tokenizer.add_tokens(FLAGGED + STRINGS)
    lines = hard_lines(160, 7)
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        config = json.load(open(os.path.join(saved, "tokenizer_config.json"), encoding="utf-8"))
        os.replace(os.path.join(saved, "tokenizer.json"), os.path.join(folder, "tokenizer.json"))
        os.symlink(os.path.join(folder, "tokenizer.json"), os.path.join(saved, "tokenizer.json"))
        for name, changes in VARIANTS.items():
            config.update(changes)
            with open(os.path.join(saved, "tokenizer_config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            tokenizer = AlbertTokenizer.from_pretrained(saved)
            with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
                file.write(json.dumps(config) + "\n")
                normalize = tokenizer.backend_tokenizer.normalizer.normalize_str
                changed = {i for i, token in tokenizer.added_tokens_decoder.items()
                           if token.normalized and normalize(token.content) != token.content}  # fmt: skip
                for line in lines:
                    encoded = tokenizer(line, return_offsets_mapping=True)
                    as_added = not changed & set(encoded["input_ids"])
                    row = {"text": line, "ids": encoded["input_ids"], "offsets": encoded["offset_mapping"],
                           "decoded": tokenizer.decode(encoded["input_ids"], skip_special_tokens=True) if as_added else None}  # fmt: skip
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
