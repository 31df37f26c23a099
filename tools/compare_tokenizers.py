#!/usr/bin/env python3
"""Compares `lshformer tokenizer encode` and `decode` with transformers' fast tokenizers, ids, offsets and text, on hard lines.

    PYTHON tools/compare_tokenizers.py [--program build/release/bin/lshformer] [--lines 3000] [--seed 1] [--only NAME] [--folder DIR]

PYTHON is one that has transformers 4.57 or 5 with sentencepiece. Folders of BERT, ALBERT, RoBERTa, ModernBERT and XLM-R with added tokens of all kinds,
settings that contradict tokenizer.json and texts that are cut are made with that version, read by both; then each is the
tokenizer of a model that the program trains for a step and converts, and the folders that leaves are read by both. Prints a
row for each folder: lines, differing ids, differing offsets, differing decoded texts; exits 1 when any differ. Of folders that
transformers 4.57 reads otherwise than 5 (XLM-R's offsets, what RoBERTa's older files leave unsaid), 5 counts: run those with 5.
Nothing is downloaded.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizers  # noqa: E402
import transformers  # noqa: E402
from long_text_folders import NEWER, add_folders  # noqa: E402
from transformers import AddedToken, AutoTokenizer  # noqa: E402

WORDS = """the a of river lake boat is was blue cold deep old man rows on café naïve Ünï film plot good bad very small big
cat dog she he it walks and not has people water city house green garden letter number hello world don't can't we're
1990, 2,000 3.14 U.S. new york kayak zip lo""".split()
SPECIALS = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "<pad>", "<unk>", "[mask]", "[Sep]", "<e1>", "<E2>", "<E1>"]
ADDED = ["kayak", "Zip", "LO", "New York", "É", "日本", "x1", "<n>", "ﬁsh", "## y", "ra-ra"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u2009", "\u200b", "\x0b", "\x0c", "\x85", "\u1680", "\r"]
MARKS = ["\u0301", "\u0308", "\u0323", "\u0327", "\u0345", "\u093c", "\u094d", "\u20dd", "\u3099", "\u0e33", "\u0903", "\ufe0f", "\u200d", "\u200c"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧", "🇩🇪🇫🇷", "☎️", "✈", "™", "½", "Ⅳ", "①", "㎏", "ﷺ", "ﬁ", "ŉ", "ẞ", "İ", "ς", "Σ", "ǅ", "Å"]
QUOTES = ["``", "''", "`", "'", '"', "“", "”", "(", ")", "-", ".", "–", "£", "€", ",", "▁", "▁▁", "_", "#", "##", "…", "!?"]
CONTROL = ["\x00", "\x01", "\x1b", "\x7f", "\x9f", "\ufffd", "\ufeff", "\u00ad", "\u061c", "\u2060", "\ue000", "\U000e0001", "\u0600"]
CJK = ["日", "本", "語", "漢字", "한국어", "각", "ｶﾞ", "が", "か\u3099", "\U00020000", "\uf900", "ㄱ", "\u1100\u1161\u11a8"]
SCRIPTS = ["Привет", "ЁЛКА", "γλώσσα", "ΣΊΣΥΦΟΣ", "שָׁלוֹם", "العَرَبِيَّة", "हिन्दी", "ไทยน้ำ", "ქართული", "Ꭰꭰ", "ﷲ", "ệ", "e\u0323\u0302", "e\u0302\u0323"]


def hard_lines(count, seed):
    rng = random.Random(seed)

    def anything():
        while True:
            c = rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000), rng.randrange(0x3000, 0xFFFF),
                            rng.randrange(0x10000, 0x1F700)])
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    def cased(word):
        return rng.choice([word, word, word.lower(), word.upper(), word.capitalize()])

    pools = [
        (10, lambda: cased(rng.choice(WORDS))), (4, lambda: rng.choice(SPECIALS)), (5, lambda: cased(rng.choice(ADDED))),
        (2, lambda: cased(rng.choice(ADDED)) + rng.choice(WORDS)), (2, lambda: rng.choice(WORDS) + cased(rng.choice(ADDED))),
        (4, lambda: rng.choice(MARKS)), (3, lambda: rng.choice(WORDS) + rng.choice(MARKS)), (3, lambda: rng.choice(EMOJI)),
        (4, lambda: rng.choice(QUOTES)), (2, lambda: rng.choice(CONTROL)), (3, lambda: rng.choice(CJK)),
        (3, lambda: rng.choice(SCRIPTS)), (3, anything), (1, lambda: "".join(anything() for _ in range(rng.randrange(1, 12)))),
        (1, lambda: rng.choice("aZé日🤗") * rng.choice([60, 99, 100, 101, 250])),
    ]  # fmt: skip
    kinds, weights = [make for _, make in pools], [weight for weight, _ in pools]
    lines = ["", " ", "\t", "\u3000", "\u200b", "[MASK]", "\u0301", "▁", "  the", "the  "]
    while len(lines) < count:
        parts = []
        for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 25])):
            parts.append(rng.choices(kinds, weights)[0]())
            if rng.random() < 0.7:
                parts.append(" " if rng.random() < 0.7 else rng.choice(SPACES))
        lines.append("".join(parts))
    return lines[:count]


def word_pieces():
    letters = sorted({c for word in WORDS for c in word.lower() + word} | set("abcdefghijklmnopqrstuvwxyz0123456789éüïß日本語한국Привет"))
    singles = sorted({c for c in "".join(QUOTES) + "".join(CJK) if not c.isspace()})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS + [word.lower() for word in WORDS]
    tokens += letters + ["##" + c for c in letters] + singles + ["##s", "##ing", "##er"]
    return list(dict.fromkeys(tokens))


def write(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def edit(folder, name, change):
    path = os.path.join(folder, name)
    value = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else {}
    change(value)
    write(folder, name, json.dumps(value, ensure_ascii=False))


STRINGS = ["kayak", "Zip", "LO", "New York", "É", "日本", "<n>"]
FLAGGED = [
    AddedToken("kayak", lstrip=True), AddedToken("Zip", single_word=True), AddedToken("LO", rstrip=True, normalized=False),
    AddedToken("New York", lstrip=True, rstrip=True), AddedToken("x1", normalized=False, single_word=True),
    AddedToken("ﬁsh", normalized=True), AddedToken("ra-ra", single_word=True, lstrip=True, rstrip=True),
    AddedToken("<E2>", special=True, normalized=True),
]  # fmt: skip


def bert_base(folder, **settings):
    write(folder, "vocab.txt", "".join(token + "\n" for token in word_pieces()))
    write(folder, "config.json", json.dumps({"model_type": "bert"}))
    write(folder, "tokenizer_config.json", json.dumps({"tokenizer_class": "BertTokenizer", **settings}))


def saved(folder, source, change=None, **settings):
    tokenizer = AutoTokenizer.from_pretrained(source, **settings)
    if change is not None:
        change(tokenizer)
    tokenizer.save_pretrained(folder)
    write(folder, "config.json", open(os.path.join(source, "config.json")).read())


def make_folders(root, program, only):
    """Name → (folder, longest or 0)."""
    at = lambda name: os.path.join(root, name)
    folders = {}

    def add(name, make, longest=0):
        if not name.startswith(only) and not name.startswith(only.split("_")[0]):
            return  # others of its family may be made of it
        make(at(name))
        folders[name] = (at(name), longest)

    add("bert_vocab_txt", lambda f: bert_base(f, do_lower_case=True))
    add("bert_cased_vocab_txt", lambda f: bert_base(f, do_lower_case=False))
    add("bert_saved", lambda f: saved(f, at("bert_vocab_txt")))
    add("bert_added_strings", lambda f: saved(f, at("bert_vocab_txt"), lambda t: t.add_tokens(STRINGS)))
    add("bert_added_flags", lambda f: saved(f, at("bert_vocab_txt"), lambda t: t.add_tokens(FLAGGED)))
    add("bert_cased_added_flags", lambda f: saved(f, at("bert_cased_vocab_txt"), lambda t: t.add_tokens(FLAGGED)))

    newer = NEWER
    special = "extra_special_tokens" if newer else "additional_special_tokens"
    more = {special: ["<e1>", AddedToken("<n>", lstrip=True)]}
    add("bert_special", lambda f: saved(f, at("bert_vocab_txt"), lambda t: (t.add_special_tokens(more), t.add_tokens(["kayak"]))))

    # transformers 4 leaves tokens of normalised text as the normaliser that it replaces made them: there without.
    def conflict(folder, **settings):
        saved(folder, at("bert_added_strings" if newer else "bert_saved"))
        edit(folder, "tokenizer_config.json", lambda config: config.update(settings))

    add("bert_lower_conflict", lambda f: conflict(f, do_lower_case=False))
    add("bert_accent_conflict", lambda f: conflict(f, strip_accents=False, tokenize_chinese_chars=False))

    def without_lower(folder):
        saved(folder, at("bert_cased_added_flags" if newer else "bert_cased_vocab_txt"))
        edit(folder, "tokenizer_config.json", lambda config: config.pop("do_lower_case"))

    add("bert_lower_unsaid", without_lower)

    def legacy(folder):
        bert_base(folder, do_lower_case=True)
        count = len(word_pieces())
        write(folder, "added_tokens.json", json.dumps({"ra-ra": count, "<e1>": count + 1, "X1": count + 2}))
        edit(folder, "tokenizer_config.json", lambda config: config.update(additional_special_tokens=["<e1>"]))
        tokens = {"mask_token": {"content": "[MASK]", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}
        write(folder, "special_tokens_map.json", json.dumps(tokens))

    add("bert_added_tokens_json", legacy)

    def generic(folder):
        saved(folder, at("bert_cased_added_flags"))
        edit(folder, "tokenizer_config.json", lambda config: config.update(tokenizer_class="PreTrainedTokenizerFast", do_lower_case=True))

    add("bert_generic", generic)

    def repeated(folder):
        bert_base(folder, do_lower_case=True)
        write(folder, "vocab.txt", "".join(t + "\n" for t in word_pieces() + ["", "cat", "", "##s", "zebra"]))

    add("bert_repeated_lines", repeated)

    def hole(folder):
        saved(folder, at("bert_vocab_txt"))
        edit(folder, "tokenizer.json", lambda j: [j["model"]["vocab"].pop("river"), j["model"]["vocab"].pop("##s")])

    add("bert_holes", hole)
    add("bert_left", lambda f: saved(f, at("bert_added_strings"), truncation_side="left"), 12)
    add("bert_right", lambda f: saved(f, at("bert_added_strings")), 12)

    # ALBERT: the pieces are ours, read by transformers from spiece.model.
    text, spiece = os.path.join(root, "text.txt"), os.path.join(root, "spiece")
    write(root, "text.txt", "\n".join(line.replace("\n", " ").replace("\x00", " ") for line in hard_lines(4000, 99)) + "\n")
    subprocess.run([program, "tokenizer", "train", "--type", "unigram", "--input", text, "--vocab_size", "4800",
                    "--output_dir", spiece, "--overwrite_output_dir", "--quiet"], check=True)  # fmt: skip
    write(spiece, "config.json", json.dumps({"model_type": "albert"}))

    def albert(folder, change=None, **settings):
        saved(folder, spiece, change, **settings)
        if os.path.exists(os.path.join(folder, "spiece.model")) and not os.path.exists(os.path.join(folder, "tokenizer.json")):
            sys.exit(f"{folder}: transformers saved no tokenizer.json")

    add("albert", lambda f: albert(f))
    add("albert_added_strings", lambda f: albert(f, lambda t: t.add_tokens(STRINGS)))
    add("albert_added_flags", lambda f: albert(f, lambda t: t.add_tokens(FLAGGED)))
    add("albert_special", lambda f: albert(f, lambda t: t.add_special_tokens(more)))
    add("albert_cased", lambda f: albert(f, do_lower_case=False))
    add("albert_accents", lambda f: albert(f, lambda t: t.add_tokens(STRINGS), keep_accents=True))
    add("albert_left", lambda f: albert(f, truncation_side="left"), 12)
    add_folders(add, at, hard_lines(2000, 98), STRINGS, FLAGGED, more)
    return folders


def ours(program, folder, texts, pairs, longest, root):
    source, target = os.path.join(root, "in.jsonl"), os.path.join(root, "out.jsonl")
    with open(source, "w", encoding="utf-8") as file:
        for text, pair in zip(texts, pairs):
            file.write(json.dumps({"text": text} if pair is None else {"text": text, "text_pair": pair}) + "\n")
    command = [program, "tokenizer", "encode", "--tokenizer", folder, "--jsonl", "--input", source, "--output", target, "--log_level", "error"]
    run = subprocess.run(command + (["--max_seq_length", str(longest)] if longest else []), capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip()
    return [json.loads(line) for line in open(target, encoding="utf-8")], ""


def decoded(program, folder, ids, skip, root):
    source, target = os.path.join(root, "ids.jsonl"), os.path.join(root, "decoded.txt")
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ids)
    command = [program, "tokenizer", "decode", "--tokenizer", folder, "--input", source, "--output", target, "--log_level", "error"]
    subprocess.run(command + (["--skip_special_tokens"] if skip else []), check=True)
    return open(target, encoding="utf-8", newline="\n").read().split("\n")


def compare(program, name, folder, longest, lines, root, examples):
    pairs = [None if i % 2 or not lines[i - 1] else lines[i - 1] for i in range(len(lines))] if longest else [None] * len(lines)
    rows, error = ours(program, folder, lines, pairs, longest, root)
    if rows is None:
        print(f"{name:34} {error}")
        return False
    tokenizer = AutoTokenizer.from_pretrained(folder)
    cut = {"truncation": True, "max_length": longest} if longest else {"truncation": False}
    ids = places = texts = 0
    # A text with a line break is no line of the decoder's output.
    # transformers 5 gives an added token normalised, 4 as it was added.
    normalizer = tokenizer.backend_tokenizer.normalizer
    changed = {i for i, token in tokenizer.added_tokens_decoder.items()
               if token.normalized and normalizer and normalizer.normalize_str(token.content) != token.content}  # fmt: skip
    alike = [row["input_ids"] for row in rows
             if "\n" not in tokenizer.decode(row["input_ids"]) and not changed & set(row["input_ids"])]  # fmt: skip
    for skip in (False, True):
        for row, text in zip(alike, decoded(program, folder, alike, skip, root)):
            theirs = tokenizer.decode(row, skip_special_tokens=skip)
            if theirs != text and texts < examples:
                print(f"  {row}\n    theirs {theirs!r}\n    ours   {text!r}")
            texts += theirs != text
    for text, pair, row in zip(lines, pairs, rows):
        theirs = tokenizer(text, pair, return_offsets_mapping=True, **cut)
        same_ids = theirs["input_ids"] == row["input_ids"]
        same_places = not same_ids or [list(place) for place in theirs["offset_mapping"]] == row["offsets"]
        if (not same_ids or not same_places) and ids + places < examples:
            print(f"  {text!r} {pair!r}\n    theirs {theirs['input_ids']} {theirs['offset_mapping']}\n    ours   {row['input_ids']} {row['offsets']}")
        ids += not same_ids
        places += not same_places
    print(f"{name:34} {len(lines):6} lines  {ids:5} ids differ  {places:5} offsets differ  {texts:5} decoded texts differ", flush=True)
    return ids + places + texts == 0


def trained(program, folder, root, name):
    """A folder that training leaves, and one that converting it leaves."""
    kind = "albert" if name.startswith("albert") else "bert"
    sizes = "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16,max_position_embeddings=64"
    if kind == "albert":
        sizes += ",embedding_size=8"
    out = os.path.join(root, name + ".trained")
    subprocess.run([program, "pretrain", "--model_type", kind, "--config_overrides", sizes, "--tokenizer_name", folder,
                    "--train_file", os.path.join(root, "text.txt"), "--output_dir", out, "--max_steps", "1", "--max_seq_length", "32",
                    "--overwrite_output_dir", "--quiet", "--log_level", "error"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    converted = os.path.join(root, name + ".converted")
    subprocess.run([program, "convert", "--model_name_or_path", out, "--output_dir", converted, "--attention", "clustered", "--calibrate",
                    os.path.join(root, "text.txt"), "--min_quality", "0", "--quiet", "--log_level", "error"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    return out, converted


def sources(root, options):
    if options.folder:
        return {os.path.basename(os.path.normpath(folder)): (folder, 0) for folder in options.folder}
    return make_folders(root, os.path.abspath(options.program), options.only)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/lshformer")
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="folders whose name begins with this")
    parser.add_argument("--folder", action="append", default=[], help="a folder in place of those that are made")
    parser.add_argument("--examples", type=int, default=0, help="lines that differ, shown for each folder")
    parser.add_argument("--no_training", action="store_true", help="leave out the folders that the program writes")
    options = parser.parse_args()
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, seed {options.seed}")
    lines, good = hard_lines(options.lines, options.seed), True
    with tempfile.TemporaryDirectory() as root:
        for name, (folder, longest) in sources(root, options).items():
            if not name.startswith(options.only):
                continue
            if not NEWER and name.startswith("xlm_roberta") and not name.endswith("generic"):
                continue  # 5 counts
            good &= compare(options.program, name, folder, longest, lines, root, options.examples)
            if options.no_training or not name.startswith(("bert", "albert")):
                continue
            for left, path in zip(("trained", "converted"), trained(options.program, folder, root, name)):
                good &= compare(options.program, f"{name}, {left}", path, longest, lines, root, options.examples)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
