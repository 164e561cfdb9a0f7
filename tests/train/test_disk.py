"""Full disks, kills and unwritable folders: the former checkpoint remains, and temporary files don't."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from tvtf import errors, train
from tvtf.fileio import atomic_file
from tvtf.state.variable import Variable
from tvtf.train import bundle


@pytest.fixture
def former(tmp_path):
    """A checkpoint with one good save, and the folder's contents."""
    variable = Variable(np.arange(100.0), name="v")
    checkpoint = train.Checkpoint(v=variable)
    path = checkpoint.save(tmp_path / "ckpt")
    variable.assign(np.zeros(100))
    return checkpoint, path, contents(tmp_path)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def full_after(monkeypatch, limit, code=errno.ENOSPC):
    """Every file takes ``limit`` bytes in all."""
    left = [limit]
    real = atomic_file._write_all

    def write_all(write, rest):
        def limited(chunk):
            if left[0] == 0:
                raise OSError(code, os.strerror(code))
            count = write(chunk[: left[0]])
            left[0] -= count
            return count

        real(limited, rest)

    monkeypatch.setattr(atomic_file, "_write_all", write_all)


@pytest.mark.parametrize(
    ("limit", "what"), [(0, "ckpt-2.data-00000-of-00001"), (100, "ckpt-2.data-00000-of-00001"), (1050, "ckpt-2.index")]
)
def test_a_full_disk_leaves_the_former_checkpoint_and_no_traces(former, tmp_path, monkeypatch, limit, what):
    checkpoint, path, before = former
    with monkeypatch.context() as patch:
        full_after(patch, limit)
        with pytest.raises(errors.ResourceExhaustedError) as caught:
            checkpoint.save(tmp_path / "ckpt")
    assert caught.value.message == (
        f"Could not write {tmp_path / what}: No space left on device. Free some space and try again."
    )
    assert contents(tmp_path) == before
    assert checkpoint.save_counter.numpy() == 1
    assert train.latest_checkpoint(tmp_path) == path
    assert checkpoint.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2")


def test_a_disk_that_is_full_for_the_state_file_only(former, tmp_path, monkeypatch):
    checkpoint, path, before = former
    with monkeypatch.context() as patch:
        full_after(patch, 1300)
        with pytest.raises(errors.ResourceExhaustedError) as caught:
            checkpoint.save(tmp_path / "ckpt")
    assert caught.value.message.startswith(f"Could not write {tmp_path}/checkpoint: No space left on device.")
    assert before.items() <= contents(tmp_path).items()
    assert train.latest_checkpoint(tmp_path) == path
    assert checkpoint.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2") == train.latest_checkpoint(tmp_path)
    assert len(os.listdir(tmp_path)) == 5


def test_a_full_disk_while_overwriting(former, tmp_path, monkeypatch):
    checkpoint, path, before = former
    full_after(monkeypatch, 500, errno.EDQUOT)
    with pytest.raises(errors.ResourceExhaustedError):
        checkpoint.write(path)
    assert contents(tmp_path) == before


def test_a_manager_meets_a_full_disk(tmp_path, monkeypatch):
    checkpoint = train.Checkpoint(v=Variable(1.0))
    manager = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1)
    first = manager.save()
    with monkeypatch.context() as patch:
        full_after(patch, 10)
        with pytest.raises(errors.ResourceExhaustedError):
            manager.save()
    assert manager.checkpoints == [first]
    assert manager.latest_checkpoint == first == train.latest_checkpoint(tmp_path)
    checkpoint.restore(first).assert_consumed()
    assert manager.save() == str(tmp_path / "ckpt-2")


KILLED = """
import os, sys
import numpy as np
from tvtf import train
from tvtf.state.variable import Variable

renames, real = [int(sys.argv[2])], os.replace
def replace(old, new):
    if renames[0] == 0:
        os._exit(9)
    renames[0] -= 1
    real(old, new)
os.replace = replace
train.Checkpoint(v=Variable(np.ones(100))).write(sys.argv[1])
"""


@pytest.mark.parametrize("renames", [0, 1])
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_kill_before_or_between_the_renames_leaves_the_former(former, tmp_path, renames, overwrite):
    checkpoint, path, before = former
    target = path if overwrite else str(tmp_path / "other")
    killed = subprocess.run([sys.executable, "-c", KILLED, target, str(renames)], check=False)
    assert killed.returncode == 9
    assert before.items() <= contents(tmp_path).items()
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(checkpoint.v.numpy(), np.arange(100.0))
    checkpoint.write(target)
    train.Checkpoint(v=checkpoint.v).read(target).expect_partial()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_overwriting_needs_one_rename_and_leaves_one_data_file(tmp_path):
    variable = Variable(0.0)
    checkpoint, prefix = train.Checkpoint(v=variable), str(tmp_path / "ckpt")
    for value, shards in [(1.0, 1), (2.0, 2), (3.0, 1)]:
        variable.assign(value)
        checkpoint.write(prefix)
        assert sorted(os.listdir(tmp_path)) == [f"ckpt.data-00000-of-0000{shards}", "ckpt.index"]
        assert train.load_variable(prefix, "v/.ATTRIBUTES/VARIABLE_VALUE") == value


def test_a_damaged_checkpoint_can_be_overwritten(tmp_path):
    prefix = str(tmp_path / "ckpt")
    bundle.write(prefix, {"v": 1.0})
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(b"damaged")
    bundle.write(prefix, {"v": 2.0})
    assert train.load_variable(prefix, "v") == 2.0


def test_missing_folders_are_made(tmp_path):
    path = train.Checkpoint(v=Variable(1.0)).save(tmp_path / "a" / "b" / "ckpt")
    assert os.path.exists(bundle.index_name(path))


def test_a_relative_prefix_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert train.Checkpoint(v=Variable(1.0)).save("ckpt") == "ckpt-1"
    assert train.latest_checkpoint(".") == "./ckpt-1"
    train.Checkpoint(v=Variable(0.0)).restore("ckpt-1").assert_consumed()


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        (errno.EACCES, errors.PermissionDeniedError, "Permission denied. Choose a folder you may write to."),
        (errno.EIO, errors.UnknownError, "Input/output error."),
    ],
)
def test_other_failures_of_the_system_are_reported_with_the_path(former, tmp_path, monkeypatch, code, kind, expected):
    checkpoint, _, before = former
    full_after(monkeypatch, 0, code)
    with pytest.raises(kind) as caught:
        checkpoint.save(tmp_path / "ckpt")
    assert caught.value.message == f"Could not write {tmp_path}/ckpt-2.data-00000-of-00001: {expected}"
    assert isinstance(caught.value.__cause__, OSError)
    assert contents(tmp_path) == before


def test_an_interrupt_leaves_no_traces(former, tmp_path, monkeypatch):
    checkpoint, _, before = former

    def interrupted(write, rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_file, "_write_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path / "ckpt")
    assert contents(tmp_path) == before
    assert checkpoint.save_counter.numpy() == 1


def test_writes_that_stop_early_are_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_file, "WRITTEN_AT_ONCE", 7)
    bundle.write(str(tmp_path / "ckpt"), {"v": np.arange(50)})
    np.testing.assert_array_equal(train.load_variable(tmp_path / "ckpt", "v"), np.arange(50))
