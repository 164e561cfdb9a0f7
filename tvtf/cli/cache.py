"""``tvtf cache``: shows or clears the cache of compiled code on disk."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tvtf.cli.failures import report_failures
from tvtf.core.thread_state import cache_folder
from tvtf.runtime import cache_eviction, store
from tvtf.runtime.cache_folder import unsafe_reason


@click.command()
@click.option("--show", is_flag=True, help="Show the folder, what it holds, and its largest size.  [default]")
@click.option("--clear", is_flag=True, help="Remove all compiled code; records of tuning stay.")
@report_failures
def cache(show: bool, clear: bool) -> None:
    """Show or clear the folder where compiled code is kept, so that later processes don't compile it again.

    TVTF_CACHE_DIR names the folder (`tvtf` in the user's cache folder by default), TVTF_CACHE_SIZE its largest size, such
    as 500MB (2GB by default, 0 to keep nothing): the code whose last use is longest ago is removed first.
    """
    home = Path(os.path.realpath(cache_folder()))
    if clear:
        click.echo(f"removed {_counts_text(store.clear(home))} from {home}")
    if show or not clear:
        files = cache_eviction.files_of(home / "code", home)
        size = sum(file.size for file in files)
        limit = cache_eviction.max_cache_bytes()
        click.echo(f"{home}: {_counts_text(files)}, {size / 1e6:.1f} MB of {limit / 1e6:.1f} MB")
        reason = unsafe_reason(home) if home.is_dir() else None
        if reason is not None:
            click.echo(f"not used: it {reason}")


def _counts_text(files: list[cache_eviction.File]) -> str:
    """Formats the numbers of compiled libraries and kernels among files, as in "1 library and 2 kernels"."""
    libraries = sum(file.path.suffix == cache_eviction.LIBRARY for file in files)
    counts = ((libraries, "library", "libraries"), (len(files) - libraries, "kernel", "kernels"))
    return " and ".join(f"{count} {singular if count == 1 else plural}" for count, singular, plural in counts)
