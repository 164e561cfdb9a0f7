"""The disk cache: damaged files, folders that can't be written, several processes, kills, and what makes a key."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import tvtf as tf
from tvtf import passes
from tvtf.context import cache_folder, dials
from tvtf.frontend import compiled
from tvtf.passes import pipeline
from tvtf.runtime import cache, seal, store
from tvtf.runtime.target import emulated_gpu_target, host_target


@pytest.fixture
def fresh(own_cache, monkeypatch):
    """An empty folder and nothing loaded."""
    monkeypatch.setattr(cache, "_loaded", {})
    return own_cache


def affine():
    return tf.function(lambda x: x * 2.0 + 1.0, autograph=False)


def libraries(folder):
    return sorted(folder.glob("*.so"))


def test_a_second_process_finds_it(fresh, monkeypatch):
    affine()(tf.ones([2]))
    (library,) = libraries(fresh)
    monkeypatch.setattr(cache, "_loaded", {})
    monkeypatch.setattr(compiled, "compile_module", lambda *_: pytest.fail("compiled again"))
    assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert libraries(fresh) == [library]


DAMAGES = {
    "empty": lambda good: b"",
    "garbage": lambda good: b"x" * 1000,
    "cut in half": lambda good: good[: len(good) // 2],
    "a page": lambda good: good[:4096],
    "without its end": lambda good: good[:-1],
    "a zero tail": lambda good: good[: len(good) // 2].ljust(len(good), b"\0"),
    "one bit": lambda good: good[:2000] + bytes([good[2000] ^ 1]) + good[2001:],
    "unsealed": lambda good: good[: -seal.SEAL_BYTES],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_library_is_built_anew(fresh, monkeypatch, damage):
    affine()(tf.ones([2]))
    (library,) = libraries(fresh)
    good = library.read_bytes()
    library.unlink()
    library.write_bytes(DAMAGES[damage](good))
    monkeypatch.setattr(cache, "_loaded", {})
    with pytest.warns(UserWarning) as warned:
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert [str(w.message) for w in warned] == [f"the cached library {library} is damaged and is built anew"]
    assert seal.is_sealed(library)


def test_a_folder_that_can_not_be_written(fresh, monkeypatch):
    fresh.parent.mkdir(exist_ok=True)
    fresh.write_text("a file where the folder should be")
    with pytest.warns(UserWarning) as warned:
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
        assert affine()(tf.ones([3])).numpy().tolist() == [3.0, 3.0, 3.0]
    assert [str(w.message) for w in warned] == [
        f"compiled code is not kept: the cache folder {fresh} can't be written ([Errno 17] File exists: '{fresh}')"
    ]


def test_a_full_disk_costs_the_cache_only(fresh, monkeypatch):
    def full(source, place):
        if fresh == place.parent:
            raise OSError(28, "No space left on device")
        replace(source, place)

    replace = os.replace

    monkeypatch.setattr(store.os, "replace", full)
    with pytest.warns(UserWarning, match="can't be written .*No space left on device"):
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]


PROGRAM = """
    import sys, time
    import tvtf as tf
    from tvtf.frontend import compiled
    build = compiled.compile_module

    def slow(mod, target, path):
        build(mod, target, path)
        print("built", path, flush=True)
        time.sleep(float(sys.argv[1]))

    compiled.compile_module = slow
    print(tf.function(lambda x: x * 2.0 + 1.0, autograph=False)(tf.ones([2])).numpy().tolist(), flush=True)
"""


def process(folder, sleep):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(sleep)],
        env=os.environ | {"TVTF_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_build_the_same(own_cache):
    both = [process(own_cache, 1.0) for _ in range(2)]
    results = [p.communicate(timeout=120) for p in both]
    assert [(out.splitlines()[-1], err) for out, err in results] == [("[3.0, 3.0]", "")] * 2
    assert len(libraries(own_cache)) == 1
    assert seal.is_sealed(libraries(own_cache)[0])
    assert [p.name for p in own_cache.iterdir()] == [libraries(own_cache)[0].name]


def test_a_kill_while_building_leaves_nothing_bad(own_cache):
    killed = process(own_cache, 60)
    assert killed.stdout.readline().startswith("built")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not libraries(own_cache)
    out, err = process(own_cache, 0).communicate(timeout=120)
    assert (out.splitlines()[-1], err) == ("[3.0, 3.0]", "")
    assert len(libraries(own_cache)) == 1


# -- what makes a key


def key(module, *options):
    return cache.key_of(module, host_target(), *options)


def module_of(function, *specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs).module()


SPEC = tf.TensorSpec([2])


def test_equal_modules_have_one_key():
    first, second = (module_of(lambda x: x * 2.0, SPEC) for _ in range(2))
    assert key(first) == key(second)


@pytest.mark.parametrize(
    "other",
    [
        lambda: module_of(lambda x: x * 3.0, SPEC),
        lambda: module_of(lambda x: x + 2.0, SPEC),
        lambda: module_of(lambda x: x * 2.0, tf.TensorSpec([3])),
    ],
)
def test_other_programs_have_other_keys(other):
    assert key(other()) != key(module_of(lambda x: x * 2.0, SPEC))


def test_target_versions_and_options_are_in_the_key(monkeypatch):
    module = module_of(lambda x: x * 2.0, SPEC)
    found = {key(module), cache.key_of(module, emulated_gpu_target()), key(module, "option")}
    monkeypatch.setattr("tvtf.version.__version__", "0.0.0")
    found.add(key(module))
    monkeypatch.setattr("tvm.__version__", "0.0.0")
    found.add(key(module))
    monkeypatch.setattr(cache, "_digest", ["changed sources"])
    found.add(key(module))
    assert len(found) == 6


def test_users_passes_are_in_the_key(fresh):
    def nothing(mod):
        return mod

    affine()(tf.ones([2]))
    passes.add_pass("nothing", nothing)
    try:
        affine()(tf.ones([2]))
    finally:
        passes.remove_pass("nothing")
    affine()(tf.ones([2]))
    assert len(libraries(fresh)) == 2


def test_verification_is_not_skipped_for_what_is_cached(fresh, monkeypatch):
    affine()(tf.ones([2]))
    checked = []
    monkeypatch.setattr("tvtf.passes.verify.check_pass", lambda name, *_: checked.append(name))
    monkeypatch.setattr(dials, "verify", True)
    affine()(tf.ones([2]))
    assert checked == [phase.name for phase in pipeline.phases(host_target()) if phase.dialect]


def test_dumps_are_written_for_what_is_cached(fresh, monkeypatch, tmp_path):
    affine()(tf.ones([2]))
    monkeypatch.setattr(dials, "dump", str(tmp_path / "dump"))
    affine()(tf.ones([2]))
    assert [p.name for p in (tmp_path / "dump").rglob("*simplify.py")]


def test_the_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_DIR", "/a")
    assert str(cache_folder()) == "/a"
    monkeypatch.delenv("TVTF_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert str(cache_folder()) == "/b/tvtf"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert str(cache_folder()) == "/c/.cache/tvtf"
