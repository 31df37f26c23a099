#!/usr/bin/env python3
"""Makes tests/golden/squad.json: answers, normalised and scored by the published SQuAD rules, in plain Python.

    python3 tools/make_squad_golden.py [--output tests/golden/squad.json]

"texts": [{"text", "words"}], and "cases": [{"references", "predictions", "na_prob", "version_2", "na_prob_thresh", "expected"}],
some made by hand, most drawn at random from words that are hard: articles, punctuation, other scripts, empty answers, several
gold answers, equal probabilities. Needs nothing but Python, whose own lower(), re and split() are what the rules mean.
"""
import argparse
import json
import random
import re
import string
from collections import Counter
from pathlib import Path

ARTICLES = re.compile(r"\b(a|an|the)\b")


def words_of(answer):
    kept = "".join(c for c in answer.lower() if c not in string.punctuation)
    return ARTICLES.sub(" ", kept).split()


def bag_f1(got, want):
    common = sum((Counter(got) & Counter(want)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(got), common / len(want)
    return 2 * precision * recall / (precision + recall)


def score_11(questions, predictions):
    exact = f1 = avna = 0
    for question in questions:
        if question["id"] in predictions:
            got = words_of(predictions[question["id"]])
            golds = [words_of(answer["text"]) for answer in question["answers"]]
            exact += max(got == gold for gold in golds)
            f1 += max(bag_f1(got, gold) for gold in golds)
            avna += predictions[question["id"]] != ""
    n = len(questions)
    figures = {"exact": 100 * exact / n, "f1": 100 * f1 / n, "total": n}
    return {**figures, **{"HasAns_" + key: value for key, value in figures.items()}, "exact_match": 100 * exact / n,
            "AvNA": 100 * avna / n}


def raw_20(question, prediction):
    golds = [words for answer in question["answers"] if (words := words_of(answer["text"]))] or [[]]
    got = words_of(prediction)
    exact = max(float(got == gold) for gold in golds)
    f1 = max(bag_f1(got, gold) if got and gold else float(got == gold) for gold in golds)
    return exact, f1


def best_threshold(questions, predictions, raw, na_prob, which):
    by_id = {question["id"]: question for question in questions}
    current = best = sum(not question["answers"] for question in questions)
    threshold = 0.0
    for id in sorted(na_prob, key=na_prob.get):          # stable
        if id not in by_id:
            continue
        if by_id[id]["answers"]:
            current += raw[id][which]
        elif predictions[id]:
            current -= 1
        if current > best:
            best, threshold = current, na_prob[id]
    return 100 * best / len(questions), threshold


def score_20(questions, predictions, na_prob, limit):
    raw = {question["id"]: raw_20(question, predictions[question["id"]]) for question in questions}
    final, avna = {}, 0
    for question in questions:
        id, none = question["id"], (na_prob or {}).get(question["id"], 0.0) > limit
        final[id] = (float(not question["answers"]),) * 2 if none else raw[id]
        avna += (not none and predictions[id] != "") == bool(question["answers"])
    out = {}
    for prefix, chosen in (("", questions), ("HasAns_", [q for q in questions if q["answers"]]),
                           ("NoAns_", [q for q in questions if not q["answers"]])):
        if chosen:
            out[prefix + "exact"] = 100 * sum(final[q["id"]][0] for q in chosen) / len(chosen)
            out[prefix + "f1"] = 100 * sum(final[q["id"]][1] for q in chosen) / len(chosen)
            out[prefix + "total"] = len(chosen)
    if na_prob is not None:
        for which, name in enumerate(("exact", "f1")):
            out[f"best_{name}"], out[f"best_{name}_thresh"] = best_threshold(questions, predictions, raw, na_prob, which)
    out["AvNA"] = 100 * avna / len(questions)
    return out


TEXTS = [
    "", " ", "the", "The  a\tAN", "An apple a day", "U.S.A.", "the-end", "a.b", "x-the", "(the)", "'a'", "theatre", "Athe", "the2", "2 a2 a", "_a_", "a_the",
    "Ünïcode ÉCOLE", "İstanbul", "ΟΔΥΣΣΕΥΣ", "ΣΑΣ Σ", "ὈΔΥΣΣΕΎΣ.", "Σa the Σ", "Straße STRASSE", "ǅ", "the\u0301 end", "the\u200bend", "a\u00a0the\u2003x", "x\u3000y",
    "\u1680", "a\u180ethe", "x\u001cy", "x\u0085y", "x\u2028y", "the\u00adx", "the²", "²the", "the½", "a٣", "٣ a", "东京 the 大阪", "the东京", "第一", "¿the?", "“the”", "the’s",
    "the's", "£the", "the€", "the°", "A\u030a the", "ａ ｔｈｅ", "Ⅷ THE", "ⅷa", "the\U0001F600", "\U0001F600a", "𝐚", "the\ufeff", "\ufeffthe", "\u0130\u0131 I", "ﬃ THE ﬃ",
    "3,000 the 3.5%", "C++ / a*b", "\"quoted\" a", "tab\ta\nnewline\r\nthe", "ᾈ ᾼ", "ẞ", "Ǆ a", "ᲀ", "Ა", "ꙋ", "꭪", "a\u0345", "ʼn", "ŉ a", "a\u20dd", "ªthe", "the_", "º a",
]

WORDS = ["the", "a", "an", "The", "Cat", "cat", "cats", "U.S.", "us", "1,000", "1000", "Ünder", "ünder", "ΣΑΣ", "σας", "-", "...", "mat", "on", "\u00a0", "東京", "“", "o'clock"]


def references(questions):
    return {"version": "test", "data": [{"title": "t", "paragraphs": [{"context": "", "qas": questions}]}]}


def make_case(questions, predictions, na_prob=None, version_2=False, na_prob_thresh=1.0):
    expected = score_20(questions, predictions, na_prob, na_prob_thresh) if version_2 else score_11(questions, predictions)
    return {"references": references(questions), "predictions": predictions, "na_prob": na_prob, "version_2": version_2,
            "na_prob_thresh": na_prob_thresh, "expected": expected}


def question(id, *answers):
    return {"id": id, "question": "?", "answers": [{"text": text, "answer_start": 0} for text in answers]}


def hand_made():
    golds = [question("q1", "the Cat", "a mat"), question("q2", "1,000"), question("q3", "The"), question("q4", "İ", "x y z")]
    yield make_case(golds, {"q1": "Cat!", "q2": "1000", "q3": "", "q4": "z y"})
    yield make_case(golds, {"q1": "cat mat", "q9": "unknown"})                       # three are missing
    yield make_case(golds, {"q1": "", "q2": "", "q3": "an", "q4": ""}, version_2=True)
    mixed = [question("q1", "cat"), question("q2"), question("q3", "", "..."), question("q4"), question("q5", "mat", "the mat on it")]
    answers = {"q1": "the cat", "q2": "", "q3": "", "q4": "x", "q5": "mat on", "q6": "unknown"}
    yield make_case(mixed, answers, version_2=True)
    for order in (["q1", "q2", "q3", "q4", "q5"], ["q4", "q5", "q1", "q3", "q2"], ["q5", "q4", "q3", "q2", "q1", "q7"]):
        yield make_case(mixed, answers, {id: 0.5 for id in order}, True)             # equal: the order of the file decides
        yield make_case(mixed, answers, {id: 0.5 for id in order}, True, 0.5)
        yield make_case(mixed, answers, {id: 0.5 for id in order}, True, 0.25)
    yield make_case(mixed[1:2], {"q2": "a"}, {"q2": -3.5}, True, -4.0)               # none has an answer
    yield make_case(mixed[:1], {"q1": "a"}, {"q1": 7}, True)                         # all have one


def drawn(rng):
    def text():
        return " ".join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 1, 2, 3, 5])))
    version_2 = rng.random() < 0.7
    questions = [question(f"q{i}", *[text() for _ in range(rng.choice([0, 1, 2, 4]) if version_2 else rng.choice([1, 2, 3]))])
                 for i in range(rng.randint(1, 12))]
    predictions = {q["id"]: rng.choice([text(), ""] + [answer["text"] for answer in q["answers"]]) for q in questions}
    if not version_2:
        predictions = {id: answer for id, answer in predictions.items() if rng.random() < 0.9}
        return make_case(questions, predictions)
    ids = [q["id"] for q in questions]
    rng.shuffle(ids)
    na_prob = {id: rng.choice([0.0, 0.25, 0.5, 0.5, 1.0, rng.random()]) for id in ids} if rng.random() < 0.7 else None
    return make_case(questions, predictions, na_prob, True, rng.choice([1.0, 0.5, 0.25, -1.0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent.parent / "tests/golden/squad.json")
    args = parser.parse_args()
    rng = random.Random(1)
    alphabet = ["a", "the", "an", "A", " ", ".", "_", "-", "Σ", "é", "\u0301", "²", "٣", "東", "€", "\u00a0", "\u200b", "x", "İ", "’"]
    texts = TEXTS + ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 9))) for _ in range(300)]
    lines = {"texts": [{"text": text, "words": words_of(text)} for text in texts],
             "cases": list(hand_made()) + [drawn(rng) for _ in range(120)]}
    args.output.write_text(json.dumps(lines, separators=(",", ":")).replace("},{\"references\"", "},\n{\"references\"") + "\n")
    print(args.output, args.output.stat().st_size // 1024, "KiB")


if __name__ == "__main__":
    main()
