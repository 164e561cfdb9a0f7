"""Translates tvtf/runtime/pool.c to pool.ll, which is what the package holds: ``make pool``, with clang 19."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "tvtf" / "runtime" / "pool.c"
TRANSLATED = SOURCE.with_suffix(".ll")
CLANG = os.environ.get("CLANG", "clang-19")
OPTIONS = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Os -fno-strict-aliasing -fno-stack-protector -fno-discard-value-names"
# What tells of one processor, or is spelled otherwise by other versions of LLVM; none of it changes what the code does.
LEFT_OUT = [
    r"^(; ModuleID|; Function Attrs|source_filename|target |attributes |!).*\n",
    r"^.*@llvm\.lifetime\..*\n",
    r"(, !(tbaa|llvm\.loop|srcloc) !\d+)+$",
    r" +; preds = .*$",
    r" #\d+\b",
    r" (noundef|nonnull|nocapture|readonly|writeonly|noalias|immarg|local_unnamed_addr|unnamed_addr|dso_local)\b",
    r" dereferenceable\(\d+\)",
    r"~\{(dirflag|fpsr|flags)\},?",
]


def head() -> str:
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    return f"; Written by `make pool` from pool.c of sha256 {digest}: change that file, not this one.\n"


def translated() -> str | None:
    """LLVM's text of the pool, or None without this clang."""
    clang = shutil.which(CLANG)
    if clang is None:
        return None
    command = [clang, *OPTIONS.split(), "-S", "-emit-llvm", "-o", "-", str(SOURCE)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for pattern in LEFT_OUT:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return head() + "\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


if __name__ == "__main__":
    found = translated()
    if found is None:
        raise SystemExit(f"{CLANG} is not installed; CLANG names another")
    TRANSLATED.write_text(found)
