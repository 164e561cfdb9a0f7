"""Names of ``tensorflow.python.tpu``, which models import that can also run on other devices.

Source: https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/python/tpu
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NoReturn

from tvtf.api.unsupported import UnsupportedNameError


class TpuContext:
    """What a program knows of the TPU that it is compiled for: here nothing, as outside of TPUs in TensorFlow."""

    number_of_shards: int | None = None

    def set_number_of_shards(self, number_of_shards: int | None) -> None:
        self.number_of_shards = number_of_shards


_context = TpuContext()


def get_tpu_context() -> TpuContext:
    return _context


def streaming_files_dataset(files: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises an error: another process would have to read the files for a TPU."""
    raise UnsupportedNameError("tvtf has no StreamingFilesDataset: tvtf compiles for CPUs and CUDA GPUs")


NAMES: dict[str, dict[str, Any]] = {
    "python.tpu.embedding_context_utils": {"SequentialEmbeddingContext": nullcontext},  # it concerns tables on TPUs
    "python.tpu.datasets": {"StreamingFilesDataset": streaming_files_dataset},
    "python.tpu.tpu_function": {"TpuContext": TpuContext, "get_tpu_context": get_tpu_context},
}
