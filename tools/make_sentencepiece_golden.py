#!/usr/bin/env python3
"""Makes tests/golden/sentencepiece/ with the sentencepiece library and the rules of HF's AlbertTokenizer (transformers 4).

    python3 tools/make_sentencepiece_golden.py [FOLDER]        (needs sentencepiece; made with 0.2.3)

spiece.model   a unigram model of 400 pieces, trained on text that is made here. Its table of characters holds those
               rules of nmt_nfkc that the cases need: the whole of it would be 240 kB.
NAME.jsonl     first line: the tokenizer_config.json in force; then one case a line with ids, offsets and decoded text

Offsets are computed from the alignment of the library's normaliser, character by character, not from the spans that
it gives to pieces.
"""
import io
import json
import random
import sys
import tempfile
import unicodedata
from pathlib import Path

import sentencepiece as spm

SPECIALS = ["[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"]
WORDS = """the a of and to in is was it that he she they we you for on with as at by from not but had have be are this which
or his her their our one all so there been if more when who would what no out up into do any your how said some could them
time very than man can only now like other two made then over such like our great must never good hash key query bucket
attention model layer house river garden mountain letter morning evening answer question market number figure table page
office affair offer café naïve résumé über straße smörgåsbord jalapeño walking walked walker talking talked quickly slowly
unhappy unhappily reading reader readable painting painted painter straightforward notwithstanding""".split()

CASES = """hello world
  The   quick\t reader  \u00a0 of\u2003the table\u3000
1,000,000 and 9, or 10,000.50 in 1990, and 2,345,678,
9,
9,9,9, 12,345, x9,y 3,a ,4 5,,6
9, 99, 999,
\u0663,\u0664 \u0967,\u0968, \u1369, \u00b2,\u00b3, \u2460,\u2461, \u2469,\u246a, \u00bd,
\uff11\uff0c\uff10\uff10\uff10\uff0c
``quoted'' and ''quoted`` ''' ```` ' ` '' ``
café CAFÉ cafe\u0301 CAFE\u0301 na\u00efve re\u0301sume\u0301 e\u0301\u0323 \u0301alone a\u0315\u0300\u0316b
ﬁre oﬃce ﬂat ﬃ \ufb05
\uff26\uff35\uff2c\uff2c \uff57\uff49\uff44\uff54\uff48
family \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1e9\U0001f1ea done
日本語 漢字9, 日,本
\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \ud55c9,
a\0b \0 c\0
a\x01b\x7fc\x1fd\x0be\x0cf\x85g
zero\u200bwidth soft\u00adhyphen \ufeffbom
a\u2028b\u2029c\u1680d\u205fe
[MASK] [CLS]a[SEP] x[MASK]y the [MASK] of <unk> <pad>
[mask] [Mask] [ MASK ] \uff3bMASK\uff3d [MASK\u0301]
  [MASK]  
İstanbul ISTANBUL ıi STRASSE straße ẞ ß
Σοφος ΟΔΟΣ οδος \U0001d6ba
ǅ Ǆ ℡ ™ ℃ ½ … ¨ ´
( ) " - . – £ € (a) "a" a-b a.b a–b £5 €5,
...--((""
\u2581a \u2581 b a\u25819, a\u25859
don't can't it's
\ufffd a\ufffdb
''
``
,
, ,
pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism9,""".split("\n")
PAIRS = [("the question", "of the answer"), ("a", ""), ("", "b"), ("[SEP]", "9,"), ("café", "1,000")]

CONFIGS = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "accents": {"do_lower_case": False, "keep_accents": True},
    "spaces": {"remove_space": False, "keep_accents": True},
}


def rules(texts):
    """The rules of nmt_nfkc for the characters of these texts, and for what they decompose into."""
    normalizer = spm.SentencePieceNormalizer(rule_name="nmt_nfkc", add_dummy_prefix=False, escape_whitespaces=False,
                                             remove_extra_whitespaces=False)
    keys = {c for text in texts for c in text + unicodedata.normalize("NFKD", text) + text.lower()} - {"\0"}
    keys |= {"e\u0301", "\u1112\u1161", "\u1112\u1161\u11ab", "\ud558\u11ab"}
    for key in sorted(keys):
        value = normalizer.normalize(key)
        if value != key:
            yield key, value


def corpus(rng):
    lines = []
    for _ in range(3000):
        words = [rng.choice(WORDS) + rng.choice(["", "", "", "s", "ed", "ing", "ly", "er"]) for _ in range(rng.randint(3, 12))]
        if rng.random() < 0.5:
            words.insert(rng.randrange(len(words)), rng.choice([f"{rng.randrange(3000):,}", f"{rng.randrange(100)},", "1,000,", "10,000", "1990,", "3.5"]))
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), rng.choice(["日本", "한국", "(a)", "it's", "don't", "£5", '"so"', "a-b"]))
        lines.append(" ".join(words) + rng.choice([".", ",", "?", "!", ""]))
    return lines


class Albert:
    """HF's AlbertTokenizer in few words, with offsets."""

    def __init__(self, model, config):
        self.sp = spm.SentencePieceProcessor(model_file=str(model))
        self.lower = config.get("do_lower_case", True)
        self.remove_space = config.get("remove_space", True)
        self.keep_accents = config.get("keep_accents", False)

    def prepare(self, text, first):
        """[(character, begin, end)] as the library sees them."""
        chars, at = [], 0
        while at < len(text):
            end = at + 1
            if self.remove_space and text[at].isspace():
                while end < len(text) and text[end].isspace():
                    end += 1
                if chars and end < len(text):
                    chars.append((" ", at, end))
            elif text[at:at + 2] in ("``", "''"):
                end = at + 2
                chars.append(('"', at, end))
            else:
                chars.append((text[at], at, end))
            at = end
        out = []
        for char, begin, end in chars:
            for c in char.lower() if self.lower else char:  # HF lowers each character by itself first
                for part in c if self.keep_accents else unicodedata.normalize("NFKD", c):
                    if self.keep_accents or not unicodedata.combining(part):
                        out += [(x, first + begin, first + end) for x in (part.lower() if self.lower else part)]
        return out

    def split(self, piece):
        """HF's rule of digits and commas: a list of pieces."""
        if not (len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()):
            return [piece]
        parts = self.sp.encode(piece[:-1].replace("▁", ""), out_type=str)
        if piece[0] != "▁" and parts[0][0] == "▁":
            parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:]] + parts[1:]
        return parts + [","]

    def encode_plain(self, text, first):
        chars = self.prepare(text, first)
        prepared = "".join(c for c, _, _ in chars)
        normalized, places = self.sp.normalize(prepared, with_offsets=True)
        origin = lambda a, b: [chars[a][1], chars[b - 1][2]]
        place = lambda a: chars[a][1] if a < len(chars) else chars[-1][2]
        ids, offsets, done = [], [], 0
        for piece, piece_id in zip(self.sp.encode(prepared, out_type=str), self.sp.encode(prepared)):
            end = done + len(piece)
            assert normalized[done:end] == piece
            parts = self.split(piece)
            for part in parts:
                if len(parts) > 1:  # the rule takes a ▁ from a first part and puts none before others
                    while part[0] != "▁" and normalized[done] == "▁":
                        done += 1
                last = end if len(parts) == 1 else done + len(part)
                a, b = places[done], places[last]
                if a == b and (done > 0 or part != "▁"):
                    b = a + 1
                # Not piece_to_id of a whole piece: unknown characters that happen to read "[MASK]" stay unknown.
                ids.append(piece_id if len(parts) == 1 else self.sp.piece_to_id(part))
                offsets.append(origin(a, b) if a < b else [place(a), place(a)])
                done = last
            assert done == end
        return ids, offsets

    def encode_text(self, text):
        ids, offsets, at = [], [], 0
        while at < len(text):
            found = [(text.find(s, at), s) for s in SPECIALS if text.find(s, at) >= 0]
            begin, special = min(found) if found else (len(text), None)
            end = begin + len(special) if special else begin
            if special == "[MASK]":  # takes the white space before it
                while begin > at and text[begin - 1].isspace():
                    begin -= 1
            if begin > at:
                some = self.encode_plain(text[at:begin], at)
                ids += some[0]
                offsets += some[1]
            if special:
                ids.append(self.sp.piece_to_id(special))
                offsets.append([begin, end])
            at = end
        return ids, offsets

    def case(self, text, pair=""):
        cls, sep = self.sp.piece_to_id("[CLS]"), self.sp.piece_to_id("[SEP]")
        ids, offsets = self.encode_text(text)
        ids, offsets, types = [cls] + ids + [sep], [[0, 0]] + offsets + [[0, 0]], [0] * (len(ids) + 2)
        if pair:
            more = self.encode_text(pair)
            ids, offsets = ids + more[0] + [sep], offsets + more[1] + [[0, 0]]
            types += [1] * (len(more[0]) + 1)
        return {"text": text, "text_pair": pair, "input_ids": ids, "token_type_ids": types, "offsets": offsets,
                "decoded": self.decode(ids, False), "decoded_plain": self.decode(ids, True)}

    def decode(self, ids, plain):
        text, run, after_special = "", [], False
        for token in [self.sp.id_to_piece(i) for i in ids]:
            special = token in SPECIALS
            if special and plain:
                continue
            if special:
                text += ("" if after_special else " ") + self.sp.decode(run) + token
                run = []
            else:
                run.append(token)
            after_special = special
        return (text + self.sp.decode(run)).strip()


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/sentencepiece")
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    texts = [text.replace("\\0", "\0") for text in CASES] + ["", " ", " \t ", "a" * 30, "x" * 3000 + "9,"]
    alphabet = list("abcdefghijklmnopqrstuvwxyz0123456789,,,,...''``  ") + list("éÀßﬁ½①，１٣日한▁\u0301\u200d\u00a0\0-–£(")
    texts += ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))) for _ in range(150)]
    texts += [" ".join(rng.choice(WORDS + ["1,000", "9,", "日本", "10,5,", "x"]) for _ in range(12)) for _ in range(60)]
    with tempfile.TemporaryDirectory() as scratch:
        tsv = Path(scratch) / "rules.tsv"
        code_points = lambda text: " ".join(f"{ord(c):X}" for c in text)
        tsv.write_text("".join(f"{code_points(key)}\t{code_points(value)}\n" for key, value in rules(texts)))
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus(rng)), model_writer=model, vocab_size=400, model_type="unigram", pad_id=0,
            unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
            user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"], normalization_rule_tsv=str(tsv),
            num_threads=1, minloglevel=2)
        # The path of the rules is the only thing in the file that is not the same every time.
        (folder / "spiece.model").write_bytes(model.getvalue().replace(str(tsv).encode(), b"-" * len(str(tsv))))
    for name, config in CONFIGS.items():
        albert = Albert(folder / "spiece.model", config)
        with open(folder / f"{name}.jsonl", "w") as out:
            out.write(json.dumps(config) + "\n")
            for text, pair in [(text, "") for text in texts] + PAIRS:
                out.write(json.dumps(albert.case(text, pair), ensure_ascii=False) + "\n")


main()
