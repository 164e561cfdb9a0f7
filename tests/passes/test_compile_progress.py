"""The spinner of long compilations: on terminals only, gone afterwards, and with the number of kernels."""

import io
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr

import pytest

from tvtf.core.thread_state import debug_settings
from tvtf.passes.debug import compile_progress as module
from tvtf.passes.debug.compile_progress import CompileProgress, compile_progress

CLEARED = "\x1b[2K"
"""What erases a line of a terminal."""


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def wait_for(self, text):
        """Waits until something is written."""
        for _ in range(20_000):
            if text in self.getvalue():
                return
            threading.Event().wait(0.001)
        raise AssertionError(f"{text} is not in {self.getvalue()!r}")


@pytest.fixture
def terminal(monkeypatch):
    """A terminal on which the spinner appears at once."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(module, "DELAY", 0.0)
    monkeypatch.setattr(module, "INTERVAL", 0.001)
    return Terminal()


def has_spinner():
    return any(thread.name == "tvtf-compile-progress" for thread in threading.enumerate())


def test_the_number_of_kernels_has_spinner_and_erased(terminal):
    with redirect_stderr(terminal), compile_progress() as progress:
        terminal.wait_for("compiling: passes")
        progress.total, progress.done = 7, 3
        terminal.wait_for("compiling: 3 of 7 kernels")
        assert sys.stderr is terminal
    assert terminal.getvalue().endswith(CLEARED) and not has_spinner()


def test_an_error_of_the_compilation_ends_it(terminal):
    with pytest.raises(KeyboardInterrupt), redirect_stderr(terminal), compile_progress():
        terminal.wait_for("compiling")
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith(CLEARED) and not has_spinner()


def test_a_short_compilation_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(module, "DELAY", 1000.0)
    with redirect_stderr(terminal), compile_progress():
        assert has_spinner()
    assert terminal.getvalue() == "" and not has_spinner()


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


def quiet():
    with compile_progress() as progress:
        return isinstance(progress, CompileProgress) and not has_spinner()


def test_pipes_other_threads_and_debugging_show_nothing(terminal, monkeypatch):
    with redirect_stderr(terminal), ThreadPoolExecutor(1) as pool:
        assert not quiet() and pool.submit(quiet).result()
        monkeypatch.setattr(debug_settings, "debug", 2)
        assert quiet()
    monkeypatch.setattr(debug_settings, "debug", 0)
    with redirect_stderr(io.StringIO()):
        assert quiet()


@pytest.mark.parametrize("stream", [None, types.SimpleNamespace(write=len), closed()], ids=["none", "bare", "closed"])
def test_streams_that_programs_replaced_show_nothing(stream):
    with redirect_stderr(stream):
        assert quiet()


def test_a_terminal_that_cannot_move_the_cursor_stays_as_it_is(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(terminal), compile_progress():
        for thread in threading.enumerate():
            if thread.name == "tvtf-compile-progress":
                thread.join()
    assert terminal.getvalue() == ""
