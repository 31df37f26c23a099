"""Loads the extension into a torch that has what it was built for."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re

OLDEST_TORCH = (2, 10)


def check_torch(version: str) -> None:
    """ImportError unless torch of this version has the stable functions that the extension calls."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ImportError(f"lshformer: needs torch {oldest} or newer, found {version}: pip install 'torch>={oldest}'")


def _load() -> str:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError("lshformer: needs torch, which is not installed: pip install 'torch>=2.10'") from error
    check_torch(torch.__version__)
    extension = pathlib.Path(__file__).with_name("_extension.so")
    if not extension.exists():
        raise ImportError(f"lshformer: {extension} is missing: install the wheel, or `pip install ./python`")
    torch.ops.load_library(str(extension))
    try:
        return importlib.metadata.version("lshformer")
    except importlib.metadata.PackageNotFoundError:  # run from a folder that nobody installed
        return "0"


__version__: str = _load()
