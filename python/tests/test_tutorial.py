"""The tutorial runs, and ends with what it is about."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

transformers = pytest.importorskip("transformers")

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "examples" / "tutorial.py"


@pytest.mark.skipif(int(transformers.__version__.split(".")[0]) < 5, reason="its BERT needs transformers 5")
def test_tutorial():
    run = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    numbers = [line.split(".")[0] for line in run.stdout.splitlines() if line[:1].isdigit() and line[1:2] == "."]
    assert numbers == ["1", "2", "3", "4", "5", "6"]
    assert "clustered, the same states" in run.stdout and "GPT2Model is causal" in run.stdout
