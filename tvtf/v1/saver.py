"""``tf.compat.v1.train.Saver``: saves a session's values of variables in checkpoints, by name.

Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/Saver
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError, NotFoundError
from tvtf.fileio import atomic_file
from tvtf.train import bundle
from tvtf.train.checkpoint_state import get_checkpoint_state, latest_checkpoint, update_checkpoint_state
from tvtf.train.reader import load_checkpoint
from tvtf.v1.graph import GraphTrace, get_default_graph
from tvtf.v1.graph_variable import GraphKeys, value_in
from tvtf.v1.registry import v1

_graphs: dict[str, Any] = {}
"""The graph for which this process wrote a ``.meta`` file, by the file's path."""


@v1("train.Saver")
class Saver:
    """Saves and restores the given variables (a list, or a mapping from names), or all variables of the graph.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/Saver
    """

    def __init__(
        self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None, restore_sequentially: bool = False,
        saver_def: Any = None, builder: Any = None, defer_build: bool = False, allow_empty: bool = False, **_: Any,
    ) -> None:  # fmt: skip
        """Finds the variables to save, unless ``defer_build`` is set. Arguments that aren't stored have no effect."""
        self._var_list, self._max_to_keep, self._allow_empty = var_list, max_to_keep, allow_empty
        self._paths: list[str] = []
        if not defer_build:
            self._by_name = self._variables()

    def _variables(self) -> dict[str, Any]:
        """Returns a dict from names to the variables to save: ``var_list``, by default all variables of the graph."""
        graph = get_default_graph()
        variables = self._var_list
        if variables is None:
            if not isinstance(state.trace, GraphTrace):
                raise RuntimeError(
                    "When eager execution is enabled, `var_list` must specify a list or dict of variables to save"
                )
            global_variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
            variables = global_variables + graph.get_collection(GraphKeys.SAVEABLE_OBJECTS)
        if isinstance(variables, Mapping):
            by_name = dict(variables)
        else:
            by_name = {variable._shared_name: variable for variable in variables}
        if not by_name and not self._allow_empty:
            raise ValueError("No variables to save")
        return by_name

    def build(self) -> None:
        """Selects the variables to save, if the constructor did not because of ``defer_build``."""
        self._by_name = self._variables()

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the checkpoints that were not deleted, oldest first."""
        return list(self._paths)

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        self._paths = list(last_checkpoints)

    def recover_last_checkpoints(self, checkpoint_paths: list[str]) -> None:
        self._paths = [path for path in checkpoint_paths if os.path.exists(bundle.index_name(path))]

    def save(
        self, sess: Any, save_path: str, global_step: Any = None, latest_filename: str | None = None, meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True, write_state: bool = True, strip_default_attrs: bool = False, save_debug_info: bool = False,
    ) -> str:  # fmt: skip
        """Writes the session's values of the variables, and returns the path to give to ``restore``.

        Args:
          sess: a session; None outside of graphs.
          global_step: a number, or a tensor, that is appended to the path.

        Raises:
          FailedPreconditionError: a variable has no value.
          ValueError: the folder does not exist.
        """
        path = os.fspath(save_path)
        if global_step is not None:
            step = global_step if sess is None or isinstance(global_step, int) else sess.run(global_step)
            path = f"{path}-{int(step)}"
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            raise ValueError(f"Parent directory of {path} doesn't exist, can't save.")
        bundle.write(path, {name: value_in(sess, v) for name, v in sorted(self._by_name.items())})
        if write_meta_graph and sess is not None:
            self.export_meta_graph(f"{path}.{meta_graph_suffix}", sess.graph)
        if write_state:
            self._keep(path)
        return path

    def _keep(self, path: str) -> None:
        """Records a checkpoint as the latest, and deletes the oldest ones beyond ``max_to_keep``."""
        self._paths = [*(other for other in self._paths if other != path), path]
        while self._max_to_keep and len(self._paths) > self._max_to_keep:
            _delete(self._paths.pop(0))
        update_checkpoint_state(os.path.dirname(path) or ".", path, self._paths)

    def export_meta_graph(self, filename: str | None = None, graph: Any = None, **_: Any) -> None:
        """Writes the names and types of the graph's ops to a text file.

        The graph can't be read from the file. ``import_meta_graph``, in the same process, finds the graph by the file's
        path.
        """
        if filename is None:
            return
        graph = graph or get_default_graph()
        lines = [f"{operation.name} {operation.type}" for operation in graph.get_operations()]
        atomic_file.replace(filename, "\n".join(lines).encode())
        _graphs[os.path.abspath(filename)] = graph

    def restore(self, sess: Any, save_path: str | None) -> None:
        """Assigns the saved values to the variables in the session.

        Raises:
          ValueError: the path is None, or no checkpoint is there.
          NotFoundError: a variable is not in the checkpoint.
          InvalidArgumentError: the shapes of a variable and its value differ.
        """
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        if not checkpoint_exists(save_path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {save_path}")
        reader = load_checkpoint(save_path)
        missing = [name for name in self._by_name if not reader.has_tensor(name)]
        if missing:
            reason = f"Key {missing[0]} not found in checkpoint"
            raise NotFoundError(
                None, None, "Restoring from checkpoint failed. This is most likely due to a Variable name or other graph key "
                f"that is missing from the checkpoint. Please ensure that you have not altered the graph expected based on the checkpoint. "
                f"Original error:\n\n{reason}",
            )  # fmt: skip
        values = {name: reader.get_tensor(name) for name in self._by_name}
        for name, variable in self._by_name.items():
            _check_shape(name, variable, values[name])
        for name, variable in self._by_name.items():
            if sess is None:
                variable.assign(values[name])
            else:
                sess.set_value(variable, values[name])


def _check_shape(name: str, variable: Any, value: Any) -> None:
    """Checks that a checkpoint's ``value`` has the shape of the variable. Raises TensorFlow's error if not."""
    if not variable.shape.is_compatible_with(value.shape):
        raise InvalidArgumentError(
            None, None, "Restoring from checkpoint failed. This is most likely due to a mismatch between the current graph and "
            "the graph from the checkpoint. Please ensure that you have not altered the graph expected based on the checkpoint. "
            f"Original error:\n\nAssign requires shapes of both tensors to match. lhs shape= {variable.shape.as_list()} rhs "
            f"shape= {list(value.shape)} [{name}]",
        )  # fmt: skip


def _delete(prefix: str) -> None:
    """Deletes the files of a checkpoint: its index, data files and meta graph."""
    folder, base_name = os.path.split(prefix)
    for name in os.listdir(folder or "."):
        if name in (f"{base_name}.index", f"{base_name}.meta") or name.startswith(f"{base_name}.data-"):
            atomic_file.remove(os.path.join(folder, name))
            _graphs.pop(os.path.abspath(os.path.join(folder, name)), None)


@v1("train.import_meta_graph")
def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **_: Any
) -> Saver:
    """Imports the graph that this process exported to a file into the default graph. Returns a saver of its variables.

    Raises:
      NotImplementedError: another process exported the graph, the default graph has ops already, or there is an
        ``import_scope``.
      OSError: there is no such file.
    """
    path = os.path.abspath(os.fspath(meta_graph_or_file))
    if not os.path.exists(path):
        raise OSError(f"File {meta_graph_or_file} does not exist.")
    target = get_default_graph()
    source = _graphs.get(path)
    if source is None or import_scope:
        raise NotImplementedError(
            "tvtf does not read graphs from files: build the graph with the code that built it, and restore its variables with "
            "tf.compat.v1.train.Saver().restore"
        )
    if target is not source:
        target.become(source)
    return Saver(allow_empty=True)


@v1("train.export_meta_graph")
def export_meta_graph(filename: str | None = None, graph: Any = None, **_: Any) -> None:
    """Same as ``Saver.export_meta_graph``."""
    Saver(allow_empty=True).export_meta_graph(filename, graph)


@v1("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Returns whether there is a checkpoint with this path."""
    return os.path.exists(bundle.index_name(os.fspath(checkpoint_prefix)))


@v1("train.NewCheckpointReader")
def new_checkpoint_reader(filepattern: str) -> Any:
    """Same as ``tf.train.load_checkpoint``."""
    return load_checkpoint(filepattern)


v1("train.get_checkpoint_state")(get_checkpoint_state)
v1("train.latest_checkpoint")(latest_checkpoint)
v1("train.update_checkpoint_state")(update_checkpoint_state)
v1("train.remove_checkpoint")(lambda checkpoint_prefix, *_, **__: _delete(os.fspath(checkpoint_prefix)))
v1("train.get_checkpoint_mtimes")(
    lambda checkpoint_prefixes: [os.path.getmtime(bundle.index_name(prefix)) for prefix in checkpoint_prefixes]
)
