#!/usr/bin/env python3
"""Makes tests/golden/similarity.json: what Sentence-Transformers makes of random vectors with each loss, and its gradients.

    pip install sentence-transformers
    python3 tools/make_similarity_golden.py [--output tests/golden/similarity.json]

Vectors are those of groups of two, three or four texts, in float64, so that what is compared is the formula. A case holds the
loss's name and options, the vectors of each column [columns][groups][numbers], the scores, the value and the gradient by every
vector.
"""
import argparse
import json

import torch
from sentence_transformers.sentence_transformer import losses

GROUPS, WIDTH = 5, 6


class Model(torch.nn.Module):
    """What the losses want of a model, which here nobody calls."""


def loss_of(case):
    options = case.get("options", {})
    kind = case["loss"]
    if kind == "cosine":
        return losses.CosineSimilarityLoss(Model())
    if kind == "cosent":
        return losses.CoSENTLoss(Model(), scale=options.get("scale", 20))
    if kind == "triplet":
        return losses.TripletLoss(Model(), triplet_margin=options["margin"])
    kinds = {"mnrl": losses.MultipleNegativesRankingLoss, "mnrl_symmetric": losses.MultipleNegativesSymmetricRankingLoss}
    return kinds[kind](Model(), scale=options.get("scale", 20))


CASES = [
    {"loss": "cosine", "columns": 2, "scores": [-0.5, 0.25, 1, 0, 0.25]},
    {"loss": "cosent", "columns": 2, "scores": [3, 0, 5, 3, 1]},
    {"loss": "cosent", "columns": 2, "scores": [1, 1, 1, 1, 1], "options": {"scale": 7}},
    {"loss": "mnrl", "columns": 2},
    {"loss": "mnrl", "columns": 4, "options": {"scale": 3}},
    {"loss": "mnrl_symmetric", "columns": 2, "options": {"scale": 5}},
    {"loss": "mnrl_symmetric", "columns": 3, "options": {"scale": 5}},
    {"loss": "triplet", "columns": 3, "options": {"margin": 0.5}},
    {"loss": "mnrl", "columns": 3, "options": {"scale": 4, "dims": [6, 3, 1]}},
    {"loss": "cosine", "columns": 2, "scores": [-0.5, 0.25, 1, 0, 0.25], "options": {"dims": [4, 2]}},
]


def compute(case, generator):
    columns = [torch.randn(GROUPS, WIDTH, dtype=torch.float64, generator=generator, requires_grad=True)
               for _ in range(case["columns"])]
    labels = torch.tensor(case.get("scores", [0.0] * GROUPS), dtype=torch.float64)
    loss = loss_of(case)
    # CosineSimilarityLoss takes its labels as float32.
    dims = case.get("options", {}).get("dims", [WIDTH])
    # Distances are between vectors as a Normalize leaves them; cosines are the same either way.
    behind = torch.nn.functional.normalize if case["loss"] == "triplet" else torch.nn.Identity()
    value = sum(loss.compute_loss_from_embeddings([behind(column[:, :dim]) for column in columns], labels).double()
                for dim in dims)
    value.backward()
    return {**case, "vectors": [column.tolist() for column in columns], "value": value.item(),
            "gradients": [column.grad.tolist() for column in columns]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="tests/golden/similarity.json")
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(11)
    cases = [compute(case, generator) for case in CASES]
    with open(arguments.output, "w") as file:
        json.dump({"cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
