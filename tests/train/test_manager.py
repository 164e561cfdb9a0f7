import os

import pytest

from tvtf import errors, train
from tvtf.state.variable import Variable
from tvtf.train import bundle, manager


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self):
        self.now = 1_000_000.0

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(manager, "time", clock)
    return clock


@pytest.fixture
def checkpoint():
    return train.Checkpoint(v=Variable(0.0, name="v"))


def names(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".index"))


def test_the_newest_are_kept_and_the_state_file_lists_them(tmp_path, checkpoint, clock):
    kept = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    for _ in range(3):
        clock.now += 10
        kept.save()
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "ckpt-2.data-00000-of-00001",
        "ckpt-2.index",
        "ckpt-3.data-00000-of-00001",
        "ckpt-3.index",
    ]
    assert kept.checkpoints == [str(tmp_path / "ckpt-2"), str(tmp_path / "ckpt-3")]
    assert kept.latest_checkpoint == str(tmp_path / "ckpt-3")
    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "ckpt-3"\n'
        'all_model_checkpoint_paths: "ckpt-2"\n'
        'all_model_checkpoint_paths: "ckpt-3"\n'
        "all_model_checkpoint_timestamps: 1000020.0\n"
        "all_model_checkpoint_timestamps: 1000030.0\n"
        "last_preserved_timestamp: 999999.0\n"
    )


def test_a_new_manager_goes_on_where_the_old_one_was(tmp_path, checkpoint):
    old = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    old.save()
    old.save()
    new = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    assert new.checkpoints == old.checkpoints
    assert new.latest_checkpoint == old.latest_checkpoint
    new.save()
    assert names(tmp_path) == ["ckpt-2.index", "ckpt-3.index"]


def test_every_so_many_hours_one_is_kept_for_ever(tmp_path, checkpoint, clock):
    kept = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1, keep_checkpoint_every_n_hours=2)
    for _ in range(6):
        clock.now += 3600
        kept.save()
    assert names(tmp_path) == ["ckpt-2.index", "ckpt-4.index", "ckpt-6.index"]
    assert [os.path.basename(path) for path in kept.checkpoints] == ["ckpt-6"]
    train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1).save()
    assert names(tmp_path) == ["ckpt-2.index", "ckpt-4.index", "ckpt-7.index"]


def test_a_clock_that_went_back_deletes_nothing_new(tmp_path, checkpoint, clock):
    train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3).save()
    clock.now -= 10_000
    later = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    assert later.checkpoints == []
    assert later.latest_checkpoint == str(tmp_path / "ckpt-1")
    later.save()
    assert names(tmp_path) == ["ckpt-1.index", "ckpt-2.index"]


def test_none_keeps_all(tmp_path, checkpoint):
    kept = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=None)
    for _ in range(4):
        kept.save()
    assert len(names(tmp_path)) == len(kept.checkpoints) == 4


def test_own_numbers_and_names(tmp_path, checkpoint):
    kept = train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3, checkpoint_name="model")
    assert kept.save(checkpoint_number=40) == str(tmp_path / "model-40")
    assert kept.save(checkpoint_number=Variable(41)) == str(tmp_path / "model-41")
    assert kept.save(checkpoint_number=40) == str(tmp_path / "model-40")
    assert [os.path.basename(path) for path in kept.checkpoints] == ["model-41", "model-40"]
    assert checkpoint.save_counter.numpy() == 3
    assert (kept.directory, kept.checkpoint) == (str(tmp_path), checkpoint)


def test_an_interval_of_steps(tmp_path, checkpoint):
    step = Variable(0)
    kept = train.CheckpointManager(checkpoint, tmp_path, 9, step_counter=step, checkpoint_interval=3)
    saved = []
    for number in range(8):
        step.assign(number)
        saved.append(kept.save() is not None)
    assert saved == [True, False, False, True, False, False, True, False]
    assert kept.save(check_interval=False) is not None
    assert kept.save(check_interval=False) is None
    assert kept.checkpoint_interval == 3


def test_after_a_restore_the_interval_counts_from_the_restored_step(tmp_path):
    step = Variable(5)
    checkpoint = train.Checkpoint(step=step)
    train.CheckpointManager(checkpoint, tmp_path, 2).save()
    step.assign(0)
    kept = train.CheckpointManager(checkpoint, tmp_path, 2, step_counter=step, checkpoint_interval=10)
    kept.restore_or_initialize()
    assert step.numpy() == 5
    assert kept.save() is None


def test_restore_or_initialize(tmp_path, checkpoint):
    calls = []
    kept = train.CheckpointManager(checkpoint, tmp_path, 2, init_fn=lambda: calls.append(1))
    assert kept.restore_or_initialize() is None
    assert calls == [1]
    checkpoint.v.assign(3.0)
    path = kept.save()
    checkpoint.v.assign(0.0)
    assert kept.restore_or_initialize() == path
    assert calls == [1]
    assert checkpoint.v.numpy() == 3.0


def damage(path):
    with open(bundle.data_name(path, 0, 1), "r+b") as file:
        file.truncate(3)


def test_the_newest_whole_checkpoint_is_restored(tmp_path, checkpoint, caplog):
    kept = train.CheckpointManager(checkpoint, tmp_path, 3)
    paths = []
    for value in (1.0, 2.0, 3.0):
        checkpoint.v.assign(value)
        paths.append(kept.save())
    damage(paths[2])
    os.remove(bundle.index_name(paths[1]))
    assert kept.restore_or_initialize() == paths[0]
    assert checkpoint.v.numpy() == 1.0
    assert [record.message.split(",")[0] for record in caplog.records] == [
        f"{path} can't be restored" for path in (paths[2], paths[1])
    ]


def test_when_all_are_damaged_the_newest_ones_error_is_raised(tmp_path, checkpoint):
    kept = train.CheckpointManager(checkpoint, tmp_path, 3)
    paths = [kept.save(), kept.save()]
    checkpoint.v.assign(5.0)
    for path in paths:
        damage(path)
    with pytest.raises(errors.DataLossError) as caught:
        kept.restore_or_initialize()
    assert caught.value.message.startswith(paths[1])
    assert checkpoint.v.numpy() == 5.0


def test_names_with_wildcards_delete_only_their_own(tmp_path, checkpoint):
    kept = train.CheckpointManager(checkpoint, tmp_path / "[a]*", 1)
    kept.save()
    kept.save()
    assert names(tmp_path / "[a]*") == ["ckpt-2.index"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"max_to_keep": 0}, "Expected a positive integer or `None` for `max_to_keep`, got 0."),
        (
            {"max_to_keep": 1, "checkpoint_interval": 2},
            "`step_counter` should be passed if `checkpoint_interval` is not None.",
        ),
    ],
)
def test_wrong_arguments(tmp_path, checkpoint, arguments, expected):
    with pytest.raises(ValueError) as caught:
        train.CheckpointManager(checkpoint, tmp_path, **arguments)
    assert str(caught.value) == expected


def test_checkpoints_are_given_as_they_arrive(tmp_path):
    checkpoint = train.Checkpoint(step=Variable(0))
    first = checkpoint.save(tmp_path / "ckpt")
    arriving = train.checkpoints_iterator(tmp_path, timeout=0)
    assert next(arriving) == str(first)
    second = checkpoint.save(tmp_path / "ckpt")
    assert list(arriving) == [str(second)]


def test_the_checkpoints_iterator_ends_at_timeout_if_requested(tmp_path):
    requested = []
    stop = lambda: len(requested) >= 1 or requested.append(1)  # noqa: E731 - the second question is answered with yes
    assert list(train.checkpoints_iterator(tmp_path, timeout=0, timeout_fn=stop)) == []
    assert requested == [1]
