#!/usr/bin/env python3
"""Runs two builds of lshformer side by side and compares all they leave, byte for byte.

    tools/compare_binaries.py OLD NEW [--work DIR] [--only PART]

For a change that users must not see: the same commands, on data that OLD makes, with the golden models of tests/golden, in folders of
the same name. Standard output, standard error, exit status and every file must be equal; only times, rates and peak memory are
masked. Checkpoints of OLD are also resumed by NEW. Prints a line for every difference and exits 1 if there is one.
"""
import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests", "golden", "models")
# What no two runs have alike.
VOLATILE = re.compile(r'("(?:[a-z_]*runtime|[a-z_]*per_second|[a-z_]*_ms|memory_bytes|seconds|seconds_per_step|time_fraction|'
                      r'time_spread)": )[-+0-9.e]+')
ATTENTIONS = {
    "dense": ["--attention", "dense"],
    "simhash": ["--attention", "simhash"],
    "simhash_mean": ["--attention", "simhash", "--lsh_fill", "mean", "--lsh_hashes", "2", "--lsh_center_keys"],
    "simhash_none": ["--attention", "simhash", "--lsh_fill", "none", "--lsh_window", "2", "--lsh_global", "cls,sep"],
    "simhash_reference": ["--attention", "simhash", "--lsh_pairs", "reference"],
    "simhash_sorted": ["--attention", "simhash", "--lsh_pairs", "sorted", "--lsh_chunk", "8", "--lsh_fill", "none"],
    "simhash_auto": ["--attention", "simhash", "--lsh_bands", "auto", "--lsh_resample", "never"],
    "reformer": ["--attention", "reformer", "--lsh_chunk", "8"],
    "reformer_r2": ["--attention", "reformer", "--lsh_chunk", "8", "--lsh_rounds", "2", "--lsh_look_ahead", "1"],
    "reformer_once": ["--attention", "reformer", "--lsh_chunk", "16", "--lsh_count_pairs_once", "--lsh_scale", "sqrt_d"],
    "reformer_own": ["--attention", "reformer", "--lsh_chunk", "8", "--lsh_cross_bucket", "false", "--lsh_causal",
                     "--lsh_buckets", "4,8"],
    "clustered": ["--attention", "clustered", "--lsh_cluster", "8", "--lsh_open", "2"],
    "clustered_levels": ["--attention", "clustered", "--lsh_cluster", "16,4", "--lsh_open", "2,3", "--lsh_window", "2",
                         "--lsh_global", "cls,sep"],
    "clustered_bundles": ["--attention", "clustered", "--lsh_cluster", "8", "--lsh_open", "2", "--lsh_bundle", "16",
                          "--lsh_window", "3"],
    "json": ["--attention", '{"type": "reformer", "chunk": 4, "wrap": false, "window": 1, "seed": 9, "min_length": 12}'],
}
TINY = "hidden_size=32,num_hidden_layers=2,num_attention_heads=2,intermediate_size=64,max_position_embeddings=128"


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        dtype, code = ("I32", "i") if isinstance(values[0], int) else ("F32", "f")
        raw = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def attention_input(path, shared_qk):
    draw = random.Random(7)
    lengths = [1, 5, 40, 73]
    tokens, heads, dim = sum(lengths), 2, 16
    names = ["query", "value", "grad_output"] if shared_qk else ["query", "key", "value", "grad_output"]
    tensors = {n: ([tokens, heads, dim], [draw.gauss(0, 1) for _ in range(tokens * heads * dim)]) for n in names}
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    tensors["cu_seqlens"] = ([len(offsets)], offsets)
    write_safetensors(path, tensors)


def commands():
    """(name, words) in order; later ones use what earlier ones leave."""
    yield "synth text", "synth --task text --words 4000 --output corpus.txt".split()
    yield "synth text 2", "synth --task text --words 800 --seed 5 --output held.txt".split()
    yield "synth reviews", "synth --task classification --examples 160 --output train.tsv".split()
    yield "synth reviews 2", "synth --task classification --examples 60 --seed 7 --output dev.tsv".split()
    yield "synth questions", "synth --task qa --examples 40 --length 60 --output qa.json".split()
    yield "synth questions 2", "synth --task qa --examples 12 --length 60 --seed 7 --output asked.json".split()
    yield "tokenizer train", "tokenizer train --type wordpiece --input corpus.txt --vocab_size 300 --output_dir vocab".split()
    yield "tokenizer encode", "tokenizer encode --tokenizer vocab --input held.txt --output held.ids".split()
    yield "tokenizer decode", "tokenizer decode --tokenizer vocab --input held.ids --output -".split()
    for name, flags in ATTENTIONS.items():
        source = "shared.safetensors" if flags[1] == "reformer" or "reformer" in flags[1] else "qkv.safetensors"
        for reference in ([], ["--reference"]):
            suffix = "_ref" if reference else ""
            yield f"attention {name}{suffix}", ["attention", "--input", source, "--output", f"a_{name}{suffix}.safetensors",
                                                *flags, *reference]
    for isa in ("avx2", "sse4"):
        yield f"attention isa {isa}", ["attention", "--input", "qkv.safetensors", "--output", f"isa_{isa}.safetensors",
                                       "--attention", "simhash", "--isa", isa]
    for model in sorted(os.listdir(GOLDEN)):
        folder = os.path.join(GOLDEN, model)
        words = ["inspect", "--model_name_or_path", folder, "--input", os.path.join(folder, "batch.jsonl"), "--hidden_states"]
        yield f"inspect {model}", words + ["--attentions", "--output", f"inspect_{model}.safetensors"]
        if model != "encoder":
            yield f"gradients {model}", words + ["--gradients", "--output", f"gradients_{model}.safetensors"]
        yield f"info {model}", ["info", folder, "--json"]
    run = ["--max_steps", "30", "--learning_rate", "1e-3", "--logging_steps", "10", "--save_steps", "20", "--no_progress"]
    new = ["--model_type", "bert", "--config_overrides", TINY, "--tokenizer_name", "vocab", "--train_file", "corpus.txt"]
    for name, flags in ATTENTIONS.items():
        yield f"pretrain {name}", ["pretrain", *new, "--output_dir", f"p_{name}", "--max_seq_length", "48", *run, *flags,
                                   "--report_to", "none"]
    yield "pretrain pairs", ["pretrain", *new, "--output_dir", "p_pairs", "--objective", "mlm+nsp", "--max_seq_length", "48",
                             "--do_eval", *run, "--report_to", "none", "--ema_decay", "0.9"]
    yield "pretrain reversible", ["pretrain", *new[:3], TINY + ",reversible=true,chunk_size_feed_forward=7", *new[4:],
                                  "--output_dir", "p_reversible", "--max_seq_length", "48", *run, "--report_to", "none",
                                  "--optim", "adamw_bert", "--weight_decay", "0.1", "--masking", "whole_word"]
    for name in ("dense", "simhash", "reformer"):
        flags = ATTENTIONS[name]
        yield f"classify {name}", ["train", "--task", "text-classification", "--model_name_or_path", "p_" + name,
                                   "--train_file", "train.tsv", "--validation_file", "dev.tsv", "--do_eval", "--output_dir",
                                   "c_" + name, "--max_seq_length", "48", *run, *flags, "--report_to", "none"]
        yield f"answer {name}", ["train", "--task", "question-answering", "--model_name_or_path", "p_" + name, "--train_file",
                                 "qa.json", "--validation_file", "asked.json", "--do_eval", "--output_dir", "q_" + name,
                                 "--max_seq_length", "64", "--doc_stride", "16", *run, *flags, "--report_to", "none"]
        yield f"evaluate {name}", ["evaluate", "--task", "text-classification", "--model_name_or_path", "c_" + name,
                                   "--validation_file", "dev.tsv"]
        yield f"perplexity {name}", ["evaluate", "--task", "fill-mask", "--model_name_or_path", "p_" + name,
                                     "--validation_file", "held.txt", "--max_seq_length", "48"]
    yield "evaluate answers", "evaluate --task question-answering --model_name_or_path q_dense --validation_file asked.json".split()
    yield "score answers", ("evaluate --task question-answering --predictions q_dense/predictions.json "
                            "--references asked.json").split()
    for task, folder in (("fill-mask", "p_dense"), ("text-classification", "c_simhash"), ("question-answering", "q_reformer"),
                         ("feature-extraction", "p_simhash")):
        yield f"predict {task}", ["predict", "--task", task, "--model_name_or_path", folder, "--input", f"{task}.jsonl",
                                  "--output", "-"]
    for pooling in ("none", "cls", "mean"):
        for normalize in ([], ["--normalize"]):
            yield f"predict {pooling} {' '.join(normalize)}", [
                "predict", "--task", "feature-extraction", "--model_name_or_path", "p_dense", "--pooling", pooling, *normalize,
                "--input", "texts.jsonl", "--output", "-", "--no_progress"]
    # Warned of with the cosine of the first texts' mean states.
    yield "predict another attention", ["predict", "--task", "feature-extraction", "--model_name_or_path", "p_dense", "--pooling",
                                        "mean", "--input", "texts.jsonl", "--output", "-", "--no_progress", "--attention", "simhash"]
    for task, folder, data in (("text-classification", "c_simhash", "dev.tsv"), ("fill-mask", "p_reformer", "held.txt"),
                               ("question-answering", "q_simhash", "asked.json")):
        yield f"compare exact {task}", ["evaluate", "--task", task, "--model_name_or_path", folder, "--validation_file", data,
                                        "--compare_exact"]
    for more in ([], ["--attention", "simhash", "--compare_exact"]):
        yield f"evaluate similarity {' '.join(more)}", ["evaluate", "--task", "sentence-similarity", "--model_name_or_path",
                                                        "p_dense", "--validation_file", "similar.tsv", *more]
    convert = ["convert", "--calibrate", "texts.jsonl", "--json", "--no_progress"]
    recover = ["--recover_steps", "12", "--learning_rate", "1e-3", "--train_file"]
    for name, folder, flags in (("plain", "p_dense", ["--lsh_open", "1"]),
                                ("recover", "p_dense", ["--lsh_open", "1", *recover, "texts.jsonl"]),
                                ("recover budget", "p_dense", ["--budget_pairs", "0.5", *recover, "texts.jsonl"]),
                                ("recover reformer", "p_dense", ["--attention", "reformer", "--lsh_chunk", "8", *recover,
                                                                 "texts.jsonl"]),
                                ("recover reversible", "p_reversible", ["--lsh_open", "1", *recover, "texts.jsonl"]),
                                ("recover answers", "q_dense", ["--lsh_open", "1", *recover, "question-pairs.jsonl"]),
                                ("recover dry", "p_dense", ["--lsh_open", "1", *recover, "texts.jsonl", "--dry_run"])):
        yield f"convert {name}", [*convert, "--model_name_or_path", folder, "--output_dir", "v_" + name.replace(" ", "_"), *flags]
    yield "predict int8", "predict --task text-classification --model_name_or_path c_dense --int8 --input text-classification.jsonl".split()
    yield "resume", ["pretrain", *new, "--output_dir", "resumed", "--max_seq_length", "48", *run, *ATTENTIONS["simhash"],
                     "--report_to", "none", "--resume_from_checkpoint", "started/checkpoint-20"]
    yield "report", "report reported_a reported_b --output compare.html".split()
    for words in (["predict"], ["train", "--lsh_bandz", "3"], ["info", "nowhere"], ["attention", "--input", "corpus.txt"],
                  ["pretrain", *new, "--output_dir", "p_dense"], ["evaluate", "--predictions", "x"]):
        yield "error " + " ".join(words)[:40], words
    yield "version", ["--version"]
    for command in ("", "info", "tokenizer train", "pretrain", "train", "evaluate", "predict", "inspect", "attention",
                    "bench attention", "bench model", "bench train", "tune", "synth", "report", "quickstart"):
        yield f"help {command}", [*command.split(), "--help"]


LINES = {
    "fill-mask": ['{"text": "Karla is a [MASK] along the river.", "id": 1}', '{"text": "no mask", "id": "x"}', "not json"],
    "text-classification": ['{"text": "we saw it", "text_pair": "and left", "id": 2}', '{"text": ""}'],
    "question-answering": ['{"question": "Which bird?", "context": "Peter hid the canary near the village.", "top_k": 3}'],
    "feature-extraction": ['{"text": "hello river", "pooling": "mean", "normalize": true}', '{"text": "river"}'],
}


def write_texts(folder):
    """Of some hundred tokens, those of question-pairs.jsonl with a question, those of similar.tsv in pairs."""
    draw = random.Random(11)
    words = "the river and village of a mill behind old canary near we saw left hello who hid it along".split()

    def text(count):
        return " ".join(draw.choice(words) for _ in range(count))
    with open(os.path.join(folder, "texts.jsonl"), "w") as file:
        file.writelines(json.dumps({"text": text(20 + 3 * i)}) + "\n" for i in range(20))
    with open(os.path.join(folder, "question-pairs.jsonl"), "w") as file:
        file.writelines(json.dumps({"question": text(5), "context": text(20 + i)}) + "\n" for i in range(20))
    with open(os.path.join(folder, "similar.tsv"), "w") as file:
        file.write("sentence1\tsentence2\tlabel\n")
        file.writelines(f"{text(4 + i)}\t{text(12 - i)}\t{i % 4}\n" for i in range(9))


def prepare(folder, seed):
    os.makedirs(folder)
    attention_input(os.path.join(folder, "qkv.safetensors"), False)
    attention_input(os.path.join(folder, "shared.safetensors"), True)
    write_texts(folder)
    for name, lines in LINES.items():
        with open(os.path.join(folder, name + ".jsonl"), "w") as file:
            file.write("\n".join(lines) + "\n")
    if seed:  # runs that OLD made: to be resumed and reported
        for name, source in (("started", "p_simhash"), ("reported_a", "p_dense"), ("reported_b", "p_reformer")):
            shutil.copytree(os.path.join(seed, source), os.path.join(folder, name))


def run_all(binary, folder, only):
    results = {}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LSHFORMER_")}
    for name, words in commands():
        if only and only not in name and not name.startswith(("synth", "tokenizer train")):
            continue
        done = subprocess.run([binary, *words, "--threads", "2"] if words != ["--version"] else [binary, *words], cwd=folder,
                              env=environment, capture_output=True)
        results[name] = (done.returncode, masked(done.stdout), masked(done.stderr))
    return results


def masked(data):
    text = data.decode("latin-1")
    return VOLATILE.sub(r"\1…", text)


def files(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name == "report.html" and "convert_report.json" in names:
                continue  # of the same figures, times among them
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                data = file.read()
            found[os.path.relpath(path, folder)] = masked(data) if name.endswith((".json", ".jsonl")) else data
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--work", help="folder to keep what both leave; default: a temporary one")
    parser.add_argument("--only", help="only commands whose name contains this")
    options = parser.parse_args()
    work = os.path.abspath(options.work) if options.work else tempfile.mkdtemp(prefix="compare")
    place = os.path.join(work, "run")  # both run here, one after the other, so that every path they write is the same
    sides = {}
    for side, binary, seed in (("seed", options.old, None), ("old", options.old, "seed"), ("new", options.new, "seed")):
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(os.path.join(work, side), ignore_errors=True)
        prepare(place, seed and os.path.join(work, seed))
        results = run_all(os.path.abspath(binary), place, options.only if seed else "pretrain")
        os.rename(place, os.path.join(work, side))
        sides[side] = (results, files(os.path.join(work, side)))
        print(f"{side}: {len(results)} commands, {len(sides[side][1])} files", flush=True)
    differences = 0
    for kind, old, new in (("command", sides["old"][0], sides["new"][0]), ("file", sides["old"][1], sides["new"][1])):
        for name in sorted(set(old) | set(new)):
            if old.get(name) != new.get(name):
                differences += 1
                print(f"{kind} differs: {name}")
                if kind == "command":
                    for before, after in zip(old[name], new[name]):
                        if before != after:
                            print(f"  old: {str(before)[:400]!r}\n  new: {str(after)[:400]!r}")
    failed = [name for name, result in sides["old"][0].items() if result[0] != 0 and not name.startswith(("error", "help"))]
    print(f"{len(sides['new'][0])} commands, {len(sides['new'][1])} files compared, {differences} differ; "
          f"not 0 in both, as expected of bad lines: {', '.join(failed) or 'none'}")
    if not options.work:
        shutil.rmtree(work)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
