#!/usr/bin/env python3
"""Makes tests/golden/ranking.json: random rankings and judgements, with what pytrec_eval computes of them.

    pip install pytrec_eval        (or pytrec_eval_terrier, which has wheels)
    python3 tools/make_ranking_golden.py [--output tests/golden/ranking.json]

Scores have few values, so that many are equal; relevances go from -1 to 3. MRR@10 is the reciprocal rank of a run that is cut to
its first ten in trec_eval's order.
"""
import argparse
import json
import random

import pytrec_eval

MEASURES = {"ndcg_cut.10", "recall.100", "recip_rank"}


def make_query(rng):
    documents = [f"d{number}" for number in range(rng.choice([3, 12, 150]))]
    judged = rng.sample(documents, rng.randint(1, min(len(documents), 30))) + [f"gone{i}" for i in range(rng.randint(0, 3))]
    qrels = {document: rng.choice([-1, 0, 0, 1, 2, 3]) for document in judged}
    found = rng.sample(documents, rng.randint(1, min(len(documents), 120)))
    return qrels, {document: rng.randint(0, 40) / 8 for document in found}


def evaluate(qrels, run):
    scores = pytrec_eval.RelevanceEvaluator({"q": qrels}, MEASURES).evaluate({"q": run})["q"]
    front = sorted(run.items(), key=lambda item: (item[1], item[0]), reverse=True)[:10]
    first = pytrec_eval.RelevanceEvaluator({"q": qrels}, MEASURES).evaluate({"q": dict(front)})["q"]
    return {"ndcg_cut_10": scores["ndcg_cut_10"], "recall_100": scores["recall_100"], "recip_rank_10": first["recip_rank"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="tests/golden/ranking.json")
    arguments = parser.parse_args()
    rng = random.Random(7)
    queries = []
    for _ in range(60):
        qrels, run = make_query(rng)
        queries.append({"qrels": qrels, "run": run, **evaluate(qrels, run)})
    with open(arguments.output, "w") as file:
        json.dump({"queries": queries}, file, indent=None, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
