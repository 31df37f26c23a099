#!/usr/bin/env python3
"""Makes tests/golden/question_answering.json: windows as HF's fast tokenizer cuts them, and answers found in random logits.

    pip install transformers numpy
    python3 tools/make_question_answering_golden.py [--output tests/golden/question_answering.json]

"vocab", and "cases": a question, its context and first answer, max_seq_length and doc_stride; "windows" with input_ids,
token_type_ids, the labels "start" and "end", and logits; "found": for several options the answer, null_odds and the n best
candidates by the published procedure (sums in float32, stable sorting). Logits are coarse, so that many are equal.
One thing is put right: a label never leaves the context's tokens.
"""
import argparse
import json
import random
import tempfile
from pathlib import Path

import numpy as np
from transformers import BertTokenizerFast

WORDS = "the cat sat on a mat and saw two birds . , ? who what where in house café über 東 京 ü ##s ##ing ##ly un ##happy".split()
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["the", "cats", "sat", "on", "a", "mat", "saw", "two", "birds", "unhappy", "unhappily", "house", "Café", "über", "東京", "zzz", "cat,", "birds.", "saws", "ings"]


def label(encoding, i, answer):
    if answer is None:
        return 0, 0
    begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    context = [k for k, part in enumerate(encoding.sequence_ids(i)) if part == 1]
    places = encoding["offset_mapping"][i]
    if places[context[0]][0] > begin or places[context[-1]][1] < end:
        return 0, 0
    return max(k for k in context if places[k][0] <= begin), min(k for k in context if places[k][1] >= end)


def search(windows, context, n_best, max_length, version_2, threshold):
    candidates, null = [], None
    for window in windows:
        starts, ends = (np.array(window[key], dtype=np.float32) for key in ("start_logits", "end_logits"))
        score = starts[0] + ends[0]
        if null is None or score < null[0]:
            null = (score, 0, 0, starts[0], ends[0])
        for s in np.argsort(starts, kind="stable")[::-1][:n_best]:
            for e in np.argsort(ends, kind="stable")[::-1][:n_best]:
                places = window["places"]
                if places[s] is None or places[e] is None or e < s or e - s + 1 > max_length:
                    continue
                candidates.append((starts[s] + ends[e], places[s][0], places[e][1], starts[s], ends[e]))
    best = sorted(candidates + [null] if version_2 else candidates, key=lambda c: -c[0])[:n_best]
    if version_2 and null not in best:
        best.append(null)
    if not best:
        best = [(np.float32(0), 0, 0, np.float32(0), np.float32(0))]
    scores = np.array([float(c[0]) for c in best])
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    real = [c for c in best if c[2] > 0]
    answer, odds = context[real[0][1]:real[0][2]] if real else "", 0.0
    if version_2:
        odds = float(null[0] - real[0][3] - real[0][4]) if real else float(null[0])
        if not real or odds > threshold:
            answer = ""
    return {"n_best_size": n_best, "max_answer_length": max_length, "version_2": version_2, "threshold": threshold, "answer": answer, "null_odds": odds,
            "best": [{"begin": c[1], "end": c[2], "start_logit": float(c[3]), "end_logit": float(c[4]), "probability": p} for c, p in zip(best, probabilities.tolist())]}


def make_case(rng, tokenizer):
    question = " ".join(rng.choice(["who", "what", "where", "cat", "sat", "?"]) for _ in range(rng.randint(1, 5)))
    words = [rng.choice(TEXTS) for _ in range(rng.randint(1, 60))]
    context, answer = " ".join(words), None
    if rng.random() < 0.8:
        first = rng.randrange(len(words))
        text = " ".join(words[first:first + rng.randint(1, 4)])
        begin = len(" ".join(words[:first])) + (first > 0)
        inside = rng.randint(0, min(2, len(text) - 1)) if rng.random() < 0.3 else 0      # not at a token's border
        answer = {"text": text[inside:], "answer_start": begin + inside}
    stride = rng.randint(0, 8)
    longest = rng.randint(5 + 3 + stride + 1, 40)
    encoding = tokenizer(question, context, truncation="only_second", max_length=longest, stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True)
    windows, spread = [], rng.choice([1.0, 4.0])
    for i, ids in enumerate(encoding["input_ids"]):
        start, end = label(encoding, i, answer)
        places = [list(p) if part == 1 else None for p, part in zip(encoding["offset_mapping"][i], encoding.sequence_ids(i))]
        logits = [[round(rng.gauss(0, spread) * 4) / 4 for _ in ids] for _ in range(2)]
        windows.append({"input_ids": ids, "token_type_ids": encoding["token_type_ids"][i], "start": start, "end": end, "start_logits": logits[0], "end_logits": logits[1],
                        "places": places})
    found = [search(windows, context, n, length, version_2, threshold)
             for n, length, version_2, threshold in ((20, 30, False, 0.0), (20, 30, True, 0.0), (3, 2, False, 0.0), (3, 2, True, -2.5), (1, 1, True, 1.0), (1, 5, False, 0.0))]
    for window in windows:
        del window["places"]
    return {"question": question, "context": context, "answer": answer, "max_seq_length": longest, "doc_stride": stride, "windows": windows, "found": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/question_answering.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(SPECIALS + WORDS) + "\n")
        tokenizer = BertTokenizerFast.from_pretrained(folder)
    rng = random.Random(3)
    cases = [make_case(rng, tokenizer) for _ in range(40)]
    text = json.dumps({"vocab": SPECIALS + WORDS, "cases": cases}, separators=(",", ":"))
    args.output.write_text(text.replace("},{\"question\"", "},\n{\"question\"") + "\n")
    print(args.output, args.output.stat().st_size // 1024, "KiB")


if __name__ == "__main__":
    main()
