#!/usr/bin/env python3
"""Processes that die and jobs that begin together, on a tiny model: what docs/distributed.md promises of both.

    tools/kill_processes.py --lshformer build/release/bin/lshformer --torchrun torchrun [--kills 30] [--pairs 20]

Kills: torchrun starts a training run of several processes with --max-restarts; kill -9 takes one of them, any, at a
random moment; the run ends with the weights of one that nobody disturbed, made by one process.
Pairs: two jobs begin at the same moment on this machine with neighbouring ports, half of them as if their processes
were on machines of their own; each finds its own processes and ends with its own weights.

Prints a line for each and the counts; exit status 1 where one went wrong.
"""
import argparse
import hashlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_data(folder):
    (folder / "tokenizer").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ","]
    for letter in LETTERS:
        words += [letter, "##" + letter]
    (folder / "tokenizer/vocab.txt").write_text("\n".join(words) + "\n")
    lines = [f"{LETTERS[i * 7 % 26]}at sits on the {LETTERS[i * 3 % 26]}ed, and sleeps.\n\n" for i in range(60)]
    (folder / "text.txt").write_text("".join(lines))


def command(arguments, folder, output, seed):
    return [arguments.lshformer, "pretrain", "--no_progress", "--threads", "1", "--seed", str(seed),
            "--model_type", "bert", "--tokenizer_name", str(folder / "tokenizer"), "--config_overrides",
            "hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=24,max_position_embeddings=32",
            "--train_file", str(folder / "text.txt"), "--output_dir", str(output), "--total_batch_size", "8",
            "--per_device_train_batch_size", "2", "--learning_rate", "1e-3", "--max_steps", str(arguments.steps),
            "--logging_steps", "0", "--save_steps", "5", "--save_total_limit", "2"]


def digest(output):
    weights = output / "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()[:16] if weights.exists() else "no weights"


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "SLURM", "OMPI"))}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ranks_below(root):
    """Processes with a RANK whose parent is `root`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError, ValueError):
            continue
        if parent == root and any(variable.startswith(b"RANK=") for variable in variables):
            found.append(int(entry.name))
    return found


def start_torchrun(arguments, folder, output):
    words = [arguments.torchrun, "--no-python", "--nproc-per-node", str(arguments.processes), "--max-restarts", "3",
             "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    words += command(arguments, folder, output, seed=1) + ["--resume_from_checkpoint", "auto"]
    return subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def kill_one(arguments, folder, wanted, seconds, number):
    output = folder / f"killed-{number}"
    job = start_torchrun(arguments, folder, output)
    begin, after = time.time(), random.uniform(0, seconds)
    while not ranks_below(job.pid) and job.poll() is None:
        time.sleep(0.02)
    appeared = time.time()
    time.sleep(after)
    ranks = ranks_below(job.pid)
    if ranks:
        os.kill(random.choice(ranks), signal.SIGKILL)
    errors = job.communicate(timeout=arguments.timeout)[1]
    good = job.returncode == 0 and digest(output) == wanted
    print(f"kill {number + 1}: {after:.2f} s after the start, {'one of ' + str(len(ranks)) if ranks else 'none left'}; "
          f"{time.time() - begin:.1f} s ({appeared - begin:.1f} s to start), status {job.returncode}: "
          f"{'the same weights' if good else 'OTHER WEIGHTS ' + errors[-600:]}", flush=True)
    shutil.rmtree(output, ignore_errors=True)
    return good, bool(ranks)


def start_job(arguments, folder, output, seed, port, one_host):
    processes = []
    for rank in range(arguments.processes):
        place = {"RANK": str(rank), "WORLD_SIZE": str(arguments.processes), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port)}
        if not one_host:
            place.update({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
        processes.append(subprocess.Popen(command(arguments, folder, output, seed), env=environment(**place),
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    return processes


def start_pair(arguments, folder, wanted, number):
    port, one_host = free_port(), number % 2 == 0
    outputs = [folder / f"pair-{number}-{job}" for job in range(2)]
    jobs = [start_job(arguments, folder, outputs[job], job + 1, port + job, one_host) for job in range(2)]
    errors = [process.communicate(timeout=arguments.timeout)[1] for job in jobs for process in job]
    good = all(process.returncode == 0 for job in jobs for process in job)
    good = good and [digest(output) for output in outputs] == wanted
    print(f"pair {number + 1}: ports {port} and {port + 1}, {'one host' if one_host else 'as if on several'}: "
          f"{'each its own weights' if good else 'WRONG ' + ' '.join(filter(None, errors))[:600]}", flush=True)
    for output in outputs:
        shutil.rmtree(output, ignore_errors=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lshformer", required=True)
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder)
        wanted = []
        for seed in (1, 2):
            output = folder / f"alone-{seed}"
            subprocess.run(command(arguments, folder, output, seed), env=environment(), check=True,
                           stdout=subprocess.DEVNULL)
            wanted.append(digest(output))
        # How long the processes of an undisturbed run live.
        job = start_torchrun(arguments, folder, folder / "undisturbed")
        while not ranks_below(job.pid) and job.poll() is None:
            time.sleep(0.02)
        begin = time.time()
        while ranks_below(job.pid):
            time.sleep(0.02)
        seconds = time.time() - begin
        job.communicate(timeout=arguments.timeout)
        print(f"undisturbed: {seconds:.1f} s, {'the same' if digest(folder / 'undisturbed') == wanted[0] else 'OTHER'} "
              "weights as one process", flush=True)
        killed = []
        while sum(hit for _, hit in killed) < arguments.kills:  # one that came too late is not counted
            killed.append(kill_one(arguments, folder, wanted[0], seconds, len(killed)))
        paired = [start_pair(arguments, folder, wanted, number) for number in range(arguments.pairs)]
    print(f"{sum(good for good, hit in killed if hit)} of {arguments.kills} killed runs and "
          f"{sum(paired)} of {len(paired)} pairs ended as they should")
    sys.exit(0 if all(good for good, _ in killed) and all(paired) else 1)


if __name__ == "__main__":
    main()
