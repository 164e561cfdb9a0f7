"""The disk cache: damaged files, folders that can't be written, several processes, kills, and what makes a key."""

import gc
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import pytest

import tvtf as tf
from tvtf import passes
from tvtf.core.thread_state import cache_folder, debug_settings
from tvtf.frontend.function import executor
from tvtf.passes import pipeline
from tvtf.passes.codegen.hooks import Hooks
from tvtf.runtime import cache, cache_eviction, store
from tvtf.runtime import cache_folder as private
from tvtf.runtime.executable import Executable
from tvtf.runtime.target import emulated_gpu_target, host_target


@pytest.fixture
def fresh(own_cache, monkeypatch):
    """An empty folder and nothing loaded or told."""
    monkeypatch.setattr(cache, "_loaded", weakref.WeakValueDictionary())
    monkeypatch.setattr(cache, "_files", weakref.WeakValueDictionary())
    monkeypatch.setattr(store, "_estimates", {})
    monkeypatch.setattr(private, "_warned", set())
    return own_cache


def affine():
    return tf.function(lambda x: x * 2.0 + 1.0, autograph=False)


def libraries(folder):
    return sorted(folder.glob("code/*.so"))


def is_whole(library):
    return store.digest_of_content(library.read_bytes()).hex() == library.stem


@pytest.fixture
def nothing_loaded(monkeypatch):
    """Makes this process forget what it loaded, as a second process knows nothing."""

    def forget():
        monkeypatch.setattr(cache, "_loaded", weakref.WeakValueDictionary())
        monkeypatch.setattr(cache, "_files", weakref.WeakValueDictionary())

    return forget


def test_a_second_process_finds_it(fresh, nothing_loaded, monkeypatch):
    affine()(tf.ones([2]))
    (library,) = libraries(fresh)
    nothing_loaded()
    monkeypatch.setattr(pipeline, "compile_module", lambda *_: pytest.fail("compiled again"))
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
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_library_is_built_again(fresh, nothing_loaded, damage):
    affine()(tf.ones([2]))
    (library,) = libraries(fresh)
    good = library.read_bytes()
    library.unlink()
    library.write_bytes(DAMAGES[damage](good))
    nothing_loaded()
    with pytest.warns(UserWarning) as warned:
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert [str(w.message) for w in warned] == [f"the cached library {library} is damaged and is built anew"]
    assert is_whole(library)


def test_a_folder_that_can_not_be_written(fresh, monkeypatch):
    fresh.parent.mkdir(exist_ok=True)
    fresh.write_text("a file where the folder should be")
    with pytest.warns(UserWarning) as warned:
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
        assert affine()(tf.ones([3])).numpy().tolist() == [3.0, 3.0, 3.0]
    assert [str(w.message) for w in warned] == [
        f"compiled code is not kept: the cache folder {fresh} can't be written ([Errno 17] File exists: '{fresh}'). Set "
        "TVTF_CACHE_DIR to a folder of your own"
    ]


def test_a_full_disk_costs_the_cache_only(fresh, monkeypatch):
    def full(source, place):
        if fresh in place.parents:
            raise OSError(28, "No space left on device")
        replace(source, place)

    replace = os.replace

    monkeypatch.setattr(store.os, "replace", full)
    with pytest.warns(UserWarning, match="can't be written .*No space left on device"):
        assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]


PROGRAM = """
    import sys, time
    import tvtf as tf
    from tvtf.passes import pipeline as compiled
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
    assert is_whole(libraries(own_cache)[0])
    assert sorted(p.name for p in own_cache.iterdir()) == ["code", "index"]


def test_a_kill_while_building_leaves_nothing_bad(own_cache):
    killed = process(own_cache, 60)
    assert killed.stdout.readline().startswith("built")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not libraries(own_cache)
    out, err = process(own_cache, 0).communicate(timeout=120)
    assert (out.splitlines()[-1], err) == ("[3.0, 3.0]", "")
    assert len(libraries(own_cache)) == 1
    assert sorted(p.name for p in own_cache.iterdir()) == ["code", "index"]  # the next process removed what it left


# -- whose folder it is


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077, 0o277])
def test_its_folders_are_for_this_user_alone(fresh, monkeypatch, umask):
    home = fresh / "not" / "there"
    monkeypatch.setenv("TVTF_CACHE_DIR", str(home))
    before = os.umask(umask)
    try:
        affine()(tf.ones([2]))
    finally:
        os.umask(before)
    assert [mode(f) for f in (fresh, fresh / "not", home, home / "code", home / "index")] == [0o700] * 5
    assert len(libraries(home)) == 1


def untrusted(folder, monkeypatch, match):
    for _ in range(2):  # one warning for all
        monkeypatch.setattr(cache, "_loaded", weakref.WeakValueDictionary())
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
            assert affine()(tf.ones([3])).numpy().tolist() == [3.0, 3.0, 3.0]
        yield [str(w.message) for w in warned]


@pytest.mark.parametrize("which", ["itself", "above"])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_one_that_others_may_write_is_not_used(fresh, monkeypatch, which, bits):
    home = fresh / "above" / "itself"
    monkeypatch.setenv("TVTF_CACHE_DIR", str(home))
    home.mkdir(parents=True, mode=0o700)
    shared = home if which == "itself" else home.parent
    shared.chmod(0o700 | bits)
    first, second = untrusted(home, monkeypatch, "other users may write")
    assert [f"the cache folder {home} is not trusted: other users may write to {shared}" in t for t in first] == [True]
    assert second == []
    assert not libraries(home)


def test_one_below_a_sticky_folder_is_used(fresh, monkeypatch):
    home = fresh / "tmp" / "mine"
    monkeypatch.setenv("TVTF_CACHE_DIR", str(home))
    home.mkdir(parents=True, mode=0o700)
    home.parent.chmod(0o1777)  # as /tmp: who doesn't own a folder there can't rename it
    affine()(tf.ones([2]))
    assert len(libraries(home)) == 1


def test_one_of_another_user_is_not_used(fresh, monkeypatch):
    affine()(tf.ones([2]))
    (library,) = libraries(fresh)
    monkeypatch.setattr(private, "_ROOT", -1)
    monkeypatch.setattr(private.os, "geteuid", lambda: os.getuid() + 1)
    loaded = []
    monkeypatch.setattr(executor, "Executable", lambda path: loaded.append(path) or Executable(path))
    first, second = untrusted(fresh, monkeypatch, "belongs to")
    assert len(first) == 1 and f"{fresh} belongs to another user (uid {os.getuid()})" in first[0]
    assert second == []
    assert loaded and library not in loaded


def test_a_link_to_what_another_user_may_write_is_not_used(fresh, monkeypatch):
    fresh.mkdir(mode=0o700)
    (fresh / "theirs").mkdir(mode=0o700)
    (fresh / "theirs").chmod(0o777)
    (fresh / "link").symlink_to(fresh / "theirs")
    monkeypatch.setenv("TVTF_CACHE_DIR", str(fresh / "link"))
    first, _ = untrusted(fresh / "link", monkeypatch, "other users")
    assert len(first) == 1
    assert not list((fresh / "theirs").iterdir())


def test_where_both_disks_are_full_code_stays_in_memory(fresh, monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_DIR", "/dev/null/cache")
    monkeypatch.setattr(store.tempfile, "tempdir", "/dev/null/temporary")
    with pytest.warns(UserWarning, match="can't be written"):
        for size in (2, 3, 4):
            assert affine()(tf.ones([size])).numpy().tolist() == [3.0] * size


# -- how much there is


def test_what_was_not_used_for_longest_goes_first(fresh, nothing_loaded, monkeypatch):
    monkeypatch.setattr(Hooks, "stored", None)
    functions = [tf.function(lambda x, i=i: x * 2.0 + float(i), autograph=False) for i in range(6)]
    for i, function in enumerate(functions[:4]):
        function(tf.ones([2]))
        newest = max(libraries(fresh), key=lambda p: p.stat().st_mtime_ns)
        os.utime(newest, (i, i))
    first, second, third, fourth = sorted(libraries(fresh), key=lambda p: p.stat().st_mtime_ns)
    nothing_loaded()
    tf.function(lambda x: x * 2.0 + 0.0, autograph=False)(tf.ones([2]))  # the first is used again
    size = sum(p.stat().st_size for p in libraries(fresh))
    monkeypatch.setenv("TVTF_CACHE_SIZE", str(size + 100))
    functions[4](tf.ones([2]))
    left = libraries(fresh)
    assert first in left and fourth in left
    assert second not in left
    assert sum(p.stat().st_size for p in left) <= size + 100
    assert {entry.read_text() for entry in (fresh / "index").iterdir()} == {p.stem for p in left}


def test_many_small_files_have_a_bound_too(tmp_path):
    for i in range(30):
        (tmp_path / f"{i:02}.so").write_bytes(b"x")
        os.utime(tmp_path / f"{i:02}.so", (i, i))
    left = cache_eviction.evict(cache_eviction.files_of(tmp_path), 1000, max_files=20)
    assert left == 18
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{i:02}.so" for i in range(12, 30)]


def test_a_cache_of_size_0_stores_nothing(fresh, monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_SIZE", "0")
    assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert not fresh.exists()


@pytest.mark.parametrize(
    ("text", "size"), [("", 2 * 10**9), ("12", 12), ("500MB", 5 * 10**8), ("1.5 gb", 15 * 10**8), ("3K", 3000)]
)
def test_sizes_are_numbers_with_units(monkeypatch, text, size):
    monkeypatch.setenv("TVTF_CACHE_SIZE", text)
    assert cache_eviction.max_cache_bytes() == size


@pytest.mark.parametrize("text", ["many", "-1", "1e9", "2 XB", "GB"])
def test_other_sizes_are_rejected(monkeypatch, text):
    monkeypatch.setenv("TVTF_CACHE_SIZE", text)
    with pytest.raises(ValueError, match="TVTF_CACHE_SIZE must be a number of bytes"):
        cache_eviction.max_cache_bytes()


WRITERS = """
    import sys
    from pathlib import Path
    from tvtf.runtime import store

    def build(path, seed):
        path.write_bytes(bytes([seed % 251]) * 1000)

    number = int(sys.argv[1])
    for i in range(200):
        seed = (i * number) % 37
        found = store.load_or_build(f"key{seed}", lambda path: build(path, seed), lambda path: path.read_bytes())
        assert found == bytes([seed % 251]) * 1000, seed
    print("done")
"""


def test_processes_write_and_evict_at_once(own_cache):
    environment = os.environ | {"TVTF_CACHE_DIR": str(own_cache), "TVTF_CACHE_SIZE": "10000"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(WRITERS)]
    processes = [
        subprocess.Popen([*command, str(n)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in (1, 3, 5)
    ]
    assert [p.communicate(timeout=120) for p in processes] == [("done\n", "")] * 3
    assert len(libraries(own_cache)) <= 12
    assert all(map(is_whole, libraries(own_cache)))


def test_code_that_is_being_loaded_is_not_evicted(fresh, monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_SIZE", "1500")

    def build(path):
        path.write_bytes(os.urandom(1000))

    def load(path):
        store.load_or_build("other", build, lambda other: other.read_bytes())
        return path.read_bytes()

    for _ in range(2):  # when it was built, and from the disk
        assert len(store.load_or_build("key", build, load)) == 1000
    store.load_or_build("third", build, lambda path: path.read_bytes())
    assert len(libraries(fresh)) == 1


# -- code in memory


def mapped(folder):
    with open("/proc/self/maps") as maps:
        return {line.split()[-1] for line in maps if str(folder) in line}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc/self/maps")
def test_functions_that_are_gone_give_their_code_back(fresh):
    def used(number):
        v = tf.Variable(tf.ones([4]))

        @tf.function(autograph=False)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tanh(x * v + float(number)))
            v.assign_sub(tape.gradient(loss, v))
            return loss, x + float(number)

        thread = threading.Thread(target=step, args=[tf.ones([4])])
        thread.start()
        thread.join()
        return step(tf.ones([4]))

    results = [used(number) for number in range(8)]
    gc.collect()
    assert len(mapped(fresh / "code")) == 0
    assert [r[1].numpy()[0] for r in results] == [1.0 + i for i in range(8)]


# -- what makes a key


def compilation(module, *options):
    return cache.Compilation(module, host_target(), *options)


def key(module, *options):
    return compilation(module, *options).key()


def module_of(function, *specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs).module()


SPEC = tf.TensorSpec([2])


def test_equal_modules_have_one_key():
    first, second = (module_of(lambda x: x * 2.0, SPEC) for _ in range(2))
    assert key(first) == key(second)
    assert compilation(first) == compilation(second)
    assert hash(compilation(first)) == hash(compilation(second))


def test_code_in_use_is_found_without_writing_the_module_as_text(fresh, monkeypatch):
    first = affine()
    first(tf.ones([2]))
    monkeypatch.setattr(cache.Compilation, "key", lambda self: pytest.fail("written as text"))
    assert affine()(tf.ones([2])).numpy().tolist() == [3.0, 3.0]


def test_errors_name_the_arguments_of_the_function_that_was_called():
    specs = [tf.TensorSpec([None])] * 2
    first = tf.function(lambda left, right: tf.matmul(left[None], right[:, None]), specs, autograph=False)
    second = tf.function(lambda a, b: tf.matmul(a[None], b[:, None]), specs, autograph=False)
    for function, name in ((first, "right"), (second, "b")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"the sizes of '{name}' do not fit"):
            function(tf.ones([3]), tf.ones([4]))


def test_constants_are_compared_by_value():
    values = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 4.0]]
    first, same, other = (compilation(module_of(lambda x, v=v: x + v, tf.TensorSpec([3]))) for v in values)
    assert first == same
    assert first != other


@pytest.mark.parametrize(
    "other",
    [
        lambda: module_of(lambda x: x * 3.0, SPEC),
        lambda: module_of(lambda x: x + 2.0, SPEC),
        lambda: module_of(lambda x: x * 2.0, tf.TensorSpec([3])),
    ],
)
def test_other_programs_have_other_keys(other):
    module = module_of(lambda x: x * 2.0, SPEC)
    assert key(other()) != key(module)
    assert compilation(other()) != compilation(module)


def test_target_versions_and_options_are_in_the_key(monkeypatch):
    module = module_of(lambda x: x * 2.0, SPEC)
    found = {key(module), cache.Compilation(module, emulated_gpu_target()).key(), key(module, "option")}
    monkeypatch.setattr(cache, "__version__", "0.0.0")
    found.add(key(module))
    monkeypatch.setattr("tvm.__version__", "0.0.0")
    found.add(key(module))
    monkeypatch.setattr(cache, "_digest", ["changed sources"])
    found.add(key(module))
    assert len(found) == 6
    assert (
        len({compilation(module), cache.Compilation(module, emulated_gpu_target()), compilation(module, "option")}) == 3
    )


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
    assert len(list((fresh / "index").iterdir())) == 2
    assert len(libraries(fresh)) == 1  # of the same content


def test_verification_is_not_skipped_for_what_is_cached(fresh, monkeypatch):
    affine()(tf.ones([2]))
    checked = []
    monkeypatch.setattr("tvtf.passes.debug.verify.check_pass", lambda name, *_: checked.append(name))
    monkeypatch.setattr(debug_settings, "verify", True)
    affine()(tf.ones([2]))
    assert checked == [phase.name for phase in pipeline.phases(host_target()) if phase.dialect]


def test_dumps_are_written_for_what_is_cached(fresh, monkeypatch, tmp_path):
    affine()(tf.ones([2]))
    monkeypatch.setattr(debug_settings, "dump", str(tmp_path / "dump"))
    affine()(tf.ones([2]))
    assert [p.name for p in (tmp_path / "dump").rglob("*simplify.txt")]


def test_the_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("TVTF_CACHE_DIR", "/a")
    assert str(cache_folder()) == "/a"
    monkeypatch.delenv("TVTF_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert str(cache_folder()) == "/b/tvtf"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert str(cache_folder()) == "/c/.cache/tvtf"
