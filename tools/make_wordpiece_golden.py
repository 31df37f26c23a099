#!/usr/bin/env python3
"""Makes tests/golden/wordpiece/ with Hugging Face's fast BERT tokenizer.

    python3 tools/make_wordpiece_golden.py [FOLDER]        (needs transformers; made with 5.23.0, tokenizers 0.23.3)

vocab.txt        a small vocabulary, written here
NAME.jsonl       first line: the tokenizer_config.json in force; then one case a line with what HF gives for it
code_points.txt  for every 4096 code points c two FNV-1a hashes of the words of "a" + c + "b": uncased, cased
"""
import json
import random
import sys
import tempfile
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers
from transformers import BertTokenizerFast

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OWN_SPECIALS = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "[E1]", "[E1x]", "plus"]
WORDS = """the a of hash keys query bucket un affable aff able ##able ##ing ##ed ##s ##ly ##un hello world Hello World
naive naïve cafe café Café resume résumé garcon strasse straße σοφος οδος ##σ ##ς привет мир fi office do not don 's n't
##n't ' " . , ! ? : ; - _ / ( ) [ ] { } # ## ### $ + < = > ^ ` | ~ @ % & * … — “ ” ‘ ’ ¿ 。 、 x ##x ##xx
日 本 語 漢 字 カ ##タ ##カ カタ ##ナ 🤗 👨 ##👩 ##👧 ##👨 ᄒ ##ᅡ ##ᆫ 한 ##국 i ##i İ ı ##ı ß ##ß ﬁ ##ﬁ Å Σ ##Σ 한국 मन ##न
mask ##mask [mask] 1 ##1 ##2 2 20 ##20 3 ##4 http ##p $ €""".split()

CASES = """hello world
Hello, WORLD!
the unaffable hashing of keys
naïve café Café résumé garçon
cafe\u0301 re\u0301sume\u0301 e\u0301\u0323 e\u0323\u0301 \u0301alone a\u0315\u0300\u0316b
\u1e9b\u0323 \u212b \u2126 \u0344 \u0f73 \u0f81 \u1fef \u037e
日本語カタカナ漢字 x日x日 日\u0301本 \uf900\ufa30 \U0002f800 \U00020000\U0002b820
한국어 \u1112\u1161\u11ab 한 \u302e한
🤗 👨\u200d👩\u200d👧 👨👩👧 ❤\ufe0f 🇩🇪
a\u00a0b a\u2003b a\u2028b a\u2029b a\u3000b a\u1680b a\u205fb
a\tb\nc\rd\r\ne\x0bf\x0cg\x85h\x00i\x1fj\x7fk\x9fl
zero\u200bwidth soft\u00adhyphen \ufeffbom a\u200eb\u202ec a\u2060b \u180e\u061c
bad\ufffdchar \ue000private \U000f0000\U0010fffd \ufdd0\uffff\U0010ffff \u0378\u0e5c
[MASK] [CLS][SEP] x[MASK]x un[MASK]ing [mask] [MASK [MASK]] [PAD][UNK]
[ MASK ] [Mask] ［MASK］ [MASK\u0301] [MA\u200bSK]
<mask> <s>x</s> plus surplus plus- [E1] [E1x] [E1 [E1]x
Σοφος ΟΔΟΣ οδος Σ ΣΣ ς
İstanbul ISTANBUL ıi i\u0307 İİ
straße STRASSE ẞ ß
ﬁ ﬃ office oﬃce ǅ Ǆ
привет ПРИВЕТ мир Йод й
¿qué? «guillemets» „quotes“ “x” ‘x’ don't don’t … — – ‐ ・ ៚ ।
#hash ##hash ###hash $1 1+1=2 ^_^ a`b~c|d <=> €20 £3 ©®™ § ¶ ·
http://x.y/z?q=1&r=2 e-mail me@x.org 3.14 1,000 20% a_b a/b
\u0915\u094d\u0937\u093f \u0e01\u0e33 \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f
\u0600\u06dd \u070f \U000110bd \U000e0041 \u2066x\u2069
\u166d \u1734 \u1885 \U000111c9 \ua9bd \u2e42 \u2e5d \u1c89 \ua7cb \U00010d50 \u1e900
\\ud800 \\u0000 %00 &#x41; \\n""".split("\n")
CASES += ["", " ", "\u00a0", "\u200b", "\x00", "\t\n", "\u0301", "[MASK]", " [MASK] ", "."]
CASES += ["x" * 99, "x" * 100, "x" * 101, "x" * 200, "a" + "x" * 99 + "-" + "x" * 101, "é" * 100, "é" * 101, "İ" * 60,
          "e\u0301" * 100, "e\u0301" * 101, "x" * 100 + "\u0301", "日" * 120, "q" * 5, "." * 30, "x\x00" * 150,
          "a" + "\u0301" * 300 + "b", "a" + "\u0315\u0300" * 40 + "b", "the " * 50, "\U00010d50" * 3]
PAIRS = [("hello world", "the keys"), ("hello", ""), ("", "hello"), ("", ""), ("hello", " "), (" ", "hello"),
         ("[SEP]", "[CLS] x [SEP]"), ("the unaffable hashing of keys", "hello, naïve world!"), ("日本", "e\u0301 a"),
         ("x" * 200 + " x", "hello world. the keys, the query"), ("[MASK]" * 5, "the [MASK] of [MASK]")]

CONFIGS = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "uncased_with_accents": {"do_lower_case": True, "strip_accents": False},
    "cased_without_accents": {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    "own_tokens": {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>",
                   "mask_token": "<mask>", "clean_up_tokenization_spaces": True},
}
TOKEN_RULES = {"<mask>": {"lstrip": True}, "[E1]": {"rstrip": True}, "[E1x]": {}, "plus": {"single_word": True}}


def vocabulary():
    tokens = SPECIALS + OWN_SPECIALS + WORDS
    letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"
    tokens += list(letters) + ["##" + c for c in letters] + list("éüçσοδςпривет") + ["##" + c for c in "éüçσοδςпривет"]
    return list(dict.fromkeys(tokens))


def config(name, tokens):
    result = {"tokenizer_class": "BertTokenizer", **CONFIGS[name]}
    if name == "own_tokens":
        plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        contents = ["<pad>", "<unk>", "<s>", "</s>", *TOKEN_RULES]
        result["added_tokens_decoder"] = {
            str(tokens.index(t)): {"content": t, **plain, **TOKEN_RULES.get(t, {}), "special": t != "plus"} for t in contents}
    return result


def answer(tokenizer, text, pair=None, add_special_tokens=True, max_length=0):
    cut = {"truncation": "longest_first", "max_length": max_length} if max_length else {}
    encoding = tokenizer(text, pair or None, add_special_tokens=add_special_tokens, return_offsets_mapping=True, **cut)
    ids = encoding["input_ids"]
    return {"text": text, "text_pair": pair or "", "add_special_tokens": add_special_tokens, "max_length": max_length,
            "input_ids": ids, "token_type_ids": encoding["token_type_ids"], "offsets": encoding["offset_mapping"],
            "decoded": tokenizer.decode(ids), "decoded_plain": tokenizer.decode(ids, skip_special_tokens=True)}


def cases(tokenizer):
    for text in CASES:
        yield answer(tokenizer, text)
    for text, pair in PAIRS:
        yield answer(tokenizer, text, pair)
        yield answer(tokenizer, text, pair, add_special_tokens=False)
        for length in (3, 4, 5, 8, 9, 13):
            yield answer(tokenizer, text, pair, max_length=length)
            yield answer(tokenizer, text, pair, add_special_tokens=False, max_length=length)
    for text in CASES[:6]:
        yield answer(tokenizer, text, max_length=5)
    draw = random.Random(1)
    parts = WORDS + CASES + SPECIALS + OWN_SPECIALS
    for _ in range(150):
        text, pair = ("".join(draw.choice(parts)[:12] + draw.choice(["", " "]) for _ in range(draw.randrange(9)))
                      for _ in range(2))
        yield answer(tokenizer, text, draw.choice([pair, None]), draw.random() < 0.8, draw.choice([0, 0, 6, 11]))


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def code_point_hashes(lowercase):
    normalizer, splitter = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    for begin in range(0, 0x110000, 4096):
        lines = []
        for c in range(begin, begin + 4096):
            if not 0xD800 <= c < 0xE000:
                words = splitter.pre_tokenize_str(normalizer.normalize_str("a" + chr(c) + "b"))
                lines.append("\x1f".join(word for word, _ in words))
        yield fnv1a("\x1e".join(lines).encode())


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/wordpiece"
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    (folder / "vocab.txt").write_text("".join(t + "\n" for t in tokens), encoding="utf-8", newline="\n")
    for name in CONFIGS:
        settings = config(name, tokens)
        with tempfile.TemporaryDirectory() as temporary:
            for file, text in (("vocab.txt", (folder / "vocab.txt").read_text(encoding="utf-8")),
                               ("tokenizer_config.json", json.dumps(settings))):
                (Path(temporary) / file).write_text(text, encoding="utf-8", newline="\n")
            tokenizer = BertTokenizerFast.from_pretrained(temporary)
        lines = [settings, *cases(tokenizer)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    hashes = zip(code_point_hashes(True), code_point_hashes(False))
    (folder / "code_points.txt").write_text("".join(f"{a:016x} {b:016x}\n" for a, b in hashes))


if __name__ == "__main__":
    main()
