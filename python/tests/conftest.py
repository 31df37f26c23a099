"""What the tests share. They run against the installed package."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def program() -> str:
    """The command line: LSHFORMER_PROGRAM, or where it is built beside or installed."""
    for found in (os.environ.get("LSHFORMER_PROGRAM"), ROOT / "build" / "release" / "bin" / "lshformer", shutil.which("lshformer")):
        if found and pathlib.Path(found).exists():
            return str(found)
    pytest.skip("the program is not built (./run build)")
