import pytest

from tvtf import errors, train
from tvtf.train import bundle, checkpoint_state


def test_paths_below_the_folder_are_relative_in_the_file_and_joined_when_read(tmp_path):
    checkpoint_state.update_checkpoint_state(
        tmp_path, str(tmp_path / "b"), [str(tmp_path / "a"), str(tmp_path / "b")], [1.5, 2.0], 0.5
    )
    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "b"\n'
        'all_model_checkpoint_paths: "a"\n'
        'all_model_checkpoint_paths: "b"\n'
        "all_model_checkpoint_timestamps: 1.5\n"
        "all_model_checkpoint_timestamps: 2.0\n"
        "last_preserved_timestamp: 0.5\n"
    )
    found = train.get_checkpoint_state(tmp_path)
    assert found.model_checkpoint_path == str(tmp_path / "b")
    assert list(found.all_model_checkpoint_paths) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert list(found.all_model_checkpoint_timestamps) == [1.5, 2.0]
    assert found.last_preserved_timestamp == 0.5


def test_absolute_paths_stay(tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/ckpt-3"\n')
    assert train.get_checkpoint_state(tmp_path).model_checkpoint_path == "/elsewhere/ckpt-3"


def test_no_state_file(tmp_path):
    assert train.get_checkpoint_state(tmp_path) is None
    assert train.latest_checkpoint(tmp_path) is None


@pytest.mark.parametrize("content", [b"not a state", b"\xff\xfe", b'model_checkpoint_path: "unfinished'])
def test_a_damaged_state_file_is_logged_and_counts_as_none(tmp_path, caplog, content):
    (tmp_path / "checkpoint").write_bytes(content)
    assert train.latest_checkpoint(tmp_path) is None
    assert caplog.records[0].message.startswith(f"{tmp_path}/checkpoint: Checkpoint ignored, it can't be parsed: ")


def test_a_state_file_without_a_newest(tmp_path):
    (tmp_path / "checkpoint").write_text('all_model_checkpoint_paths: "a"\n')
    with pytest.raises(ValueError) as caught:
        train.latest_checkpoint(tmp_path)
    assert str(caught.value) == (
        f"Invalid checkpoint state loaded from {tmp_path}: {tmp_path}/checkpoint names no model_checkpoint_path."
    )


def test_the_newest_is_gone(tmp_path, caplog):
    checkpoint_state.update_checkpoint_state(tmp_path, str(tmp_path / "ckpt-1"))
    assert train.latest_checkpoint(tmp_path) is None
    assert caplog.records[0].message == f"Couldn't match files for checkpoint {tmp_path}/ckpt-1"


def test_another_state_file(tmp_path):
    bundle.write(str(tmp_path / "x"), {"v": 1.0})
    (tmp_path / "mine").write_text('model_checkpoint_path: "x"\n')
    assert train.latest_checkpoint(tmp_path, "mine") == str(tmp_path / "x")


def test_numbers_of_paths_and_times_differ(tmp_path):
    with pytest.raises(ValueError) as caught:
        checkpoint_state.update_checkpoint_state(tmp_path, "b", ["a", "b"], [1.0])
    assert str(caught.value) == (
        "Checkpoint timestamps, if provided, must match checkpoint paths (got paths ['a', 'b'] and timestamps [1.0])"
    )


def test_a_checkpoint_called_as_the_state_file(tmp_path):
    path = str(tmp_path / "checkpoint")
    with pytest.raises(RuntimeError) as caught:
        checkpoint_state.update_checkpoint_state(tmp_path, path)
    assert str(caught.value) == (
        f"Save path '{path}' conflicts with path used for checkpoint state. Please use a different save path."
    )


class TestReaders:
    def test_a_folder_means_its_newest(self, tmp_path):
        bundle.write(str(tmp_path / "ckpt-1"), {"b": [1.0, 2.0], "a": 3})
        checkpoint_state.update_checkpoint_state(tmp_path, str(tmp_path / "ckpt-1"))
        assert train.list_variables(tmp_path) == [("a", []), ("b", [2])]
        assert train.load_variable(tmp_path, "b:0").tolist() == [1.0, 2.0]
        assert train.load_checkpoint(tmp_path / "ckpt-1").get_tensor("a") == 3

    def test_a_folder_without_one(self, tmp_path):
        with pytest.raises(ValueError) as caught:
            train.load_checkpoint(tmp_path)
        assert str(caught.value) == (f"Couldn't find 'checkpoint' file or checkpoints in given directory {tmp_path}")

    def test_no_such_checkpoint(self, tmp_path):
        with pytest.raises(errors.NotFoundError) as caught:
            train.list_variables(tmp_path / "none")
        assert caught.value.message == (
            f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {tmp_path}/none"
        )
