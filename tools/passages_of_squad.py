"""SQuAD's form as data to search in, and what a search over it found: MRR of passages that hold an answer.

    passages_of_squad.py make SQUAD.json[.gz]... --output_dir DIR
        DIR/corpus.jsonl, queries.jsonl, qrels.tsv: BEIR's layout, a context a document; what `evaluate --task retrieval`
        judges. A question's document is the context it was asked of.
        DIR/answers.json: of each question where its answers are.
    lshformer search ... --corpus DIR/corpus.jsonl --query_file DIR/queries.jsonl --top_k 10 --json > found.jsonl
    passages_of_squad.py score DIR/answers.json found.jsonl
        mrr_at_10: the mean over questions of 1 / the place of the first passage of the ten that holds an answer or a
        part of one, else 0. accuracy_at_1 likewise.
"""
import argparse
import gzip
import json
import os


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        return json.load(file)["data"]


def make(options):
    os.makedirs(options.output_dir, exist_ok=True)
    corpus, queries, qrels, answers, numbers = [], [], [], {}, {}
    for path in options.files:
        for article in read(path):
            for paragraph in article["paragraphs"]:
                text = paragraph["context"]
                number = numbers.setdefault(text, f"d{len(numbers)}")
                if number == f"d{len(corpus)}":
                    corpus.append({"_id": number, "text": text})
                for question in paragraph["qas"]:
                    if not question["answers"] or question.get("is_impossible"):
                        continue
                    key = f"q{len(queries)}"
                    queries.append({"_id": key, "text": question["question"]})
                    qrels.append(f"{key}\t{number}\t1\n")
                    answers[key] = {
                        "document": number,
                        "spans": [[a["answer_start"], a["answer_start"] + len(a["text"])] for a in question["answers"]],
                    }

    def write(name, lines):
        with open(os.path.join(options.output_dir, name), "w", encoding="utf-8") as file:
            file.writelines(lines)

    write("corpus.jsonl", (json.dumps(one, ensure_ascii=False) + "\n" for one in corpus))
    write("queries.jsonl", (json.dumps(one, ensure_ascii=False) + "\n" for one in queries))
    write("qrels.tsv", ["query-id\tcorpus-id\tscore\n"] + qrels)
    write("answers.json", [json.dumps(answers)])
    print(f"{len(corpus)} documents, {len(queries)} questions")


def holds(result, answer):
    return result["id"] == answer["document"] and any(
        result["start"] < end and begin < result["end"] for begin, end in answer["spans"]
    )


def score(options):
    with open(options.answers, encoding="utf-8") as file:
        answers = json.load(file)
    reciprocals, first = [], []
    with open(options.found, encoding="utf-8") as file:
        for line in file:
            found = json.loads(line)
            answer = answers[found["id"]]
            places = [i for i, result in enumerate(found["results"][:10], 1) if holds(result, answer)]
            reciprocals.append(1 / places[0] if places else 0)
            first.append(bool(places) and places[0] == 1)
    count = len(reciprocals)
    print(json.dumps({"mrr_at_10": sum(reciprocals) / count, "accuracy_at_1": sum(first) / count, "questions": count}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("make")
    command.add_argument("files", nargs="+")
    command.add_argument("--output_dir", required=True)
    command.set_defaults(run=make)
    command = commands.add_parser("score")
    command.add_argument("answers")
    command.add_argument("found")
    command.set_defaults(run=score)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
