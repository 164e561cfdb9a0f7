"""Public namespaces (``tvtf.math``, ``tvtf.nn``, ...): modules built from the public paths that ops declare.

Modules that many programs don't need are imported lazily, when they or one of their public names is first used. That keeps
``import tvtf`` fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from tvtf.api import unsupported
from tvtf.api.module_aliases import ModuleAliases
from tvtf.core.primitive import add_pending_handlers, hooks, public_names
from tvtf.core.tvm_import import import_whole

_INITIALIZERS = (
    "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity IdentityInitializer Initializer LecunNormal "
    "LecunUniform Ones Orthogonal OrthogonalInitializer RandomNormal RandomUniform TruncatedNormal VarianceScaling Zeros "
    "constant deserialize get glorot_normal glorot_uniform he_normal he_uniform identity lecun_normal lecun_uniform ones "
    "orthogonal random_normal random_uniform serialize truncated_normal variance_scaling zeros"
)
_FILES = (
    "decode_and_crop_jpeg decode_bmp decode_gif decode_image decode_jpeg decode_png decode_webp encode_jpeg encode_png "
    "extract_jpeg_shape is_jpeg"
)
LATE = {
    "rng.candidate_sampling": {
        "random": "all_candidate_sampler fixed_unigram_candidate_sampler learned_unigram_candidate_sampler "
        "log_uniform_candidate_sampler uniform_candidate_sampler",
        "nn": "all_candidate_sampler compute_accidental_hits fixed_unigram_candidate_sampler "
        "learned_unigram_candidate_sampler nce_loss sampled_softmax_loss",
    },
    "arrays": {"experimental": "numpy"},
    "data": {"": "data OptionalSpec", "experimental": "Optional", "io": "TFRecordOptions TFRecordWriter"},
    "frontend.configuration.distribute": {"": "distribute"},
    "examples": {
        "io": "FixedLenFeature FixedLenSequenceFeature RaggedFeature SparseFeature VarLenFeature decode_compressed decode_csv "
        "decode_json_example deserialize_many_sparse match_filenames_once parse_example parse_sequence_example "
        "parse_single_example parse_single_sequence_example serialize_many_sparse serialize_sparse",
    },
    "public.interop": {
        "": "make_ndarray make_tensor_proto",
        "experimental.dlpack": "from_dlpack to_dlpack",
        "types.experimental": "TensorLike",
    },
    "composites.extension": {
        "experimental": "BatchableExtensionType ExtensionType ExtensionTypeBatchEncoder ExtensionTypeSpec dispatch_for_api "
        "dispatch_for_binary_elementwise_apis dispatch_for_binary_elementwise_assert_apis "
        "dispatch_for_unary_elementwise_apis extension_type unregister_dispatch_for",
    },
    "public.func_graph": {"__internal__": "FuncGraph"},
    "rng.fractional_pool": {"nn": "fractional_avg_pool fractional_max_pool"},
    "frontend.library.conjugate_gradient": {"linalg.experimental": "conjugate_gradient"},
    "frontend.library.ctc": {"nn": "ctc_loss"},
    "frontend.library.ctc_decode": {
        "nn": "collapse_repeated ctc_beam_search_decoder ctc_greedy_decoder ctc_unique_labels"
    },
    "frontend.host.parse_tensor": {"io": "parse_tensor"},
    "frontend.library.fake_quantized": {
        "nn": "depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input",
        "quantization": "quantize_and_dequantize quantize_and_dequantize_v2",
    },
    "images": {
        "image": "ResizeMethod adjust_hue adjust_jpeg_quality adjust_saturation central_crop combined_non_max_suppression "
        "crop_and_resize draw_bounding_boxes extract_glimpse extract_patches hsv_to_rgb image_gradients non_max_suppression "
        "non_max_suppression_overlaps non_max_suppression_padded non_max_suppression_with_scores psnr random_brightness "
        "random_contrast random_crop random_flip_left_right random_flip_up_down random_hue random_jpeg_quality "
        "random_saturation resize resize_with_crop_or_pad resize_with_pad rgb_to_hsv sample_distorted_bounding_box "
        "sobel_edges ssim ssim_multiscale stateless_random_brightness stateless_random_contrast stateless_random_crop "
        "stateless_random_flip_left_right stateless_random_flip_up_down stateless_random_hue stateless_random_jpeg_quality "
        "stateless_random_saturation stateless_sample_distorted_bounding_box total_variation " + _FILES,
        "io": _FILES,
        "raw_ops": "ImageProjectiveTransformV3",
    },
    "rng.keras_initializers": {"initializers": _INITIALIZERS},
    "public.internal": {
        "__internal__": "EagerTensor",
        "__internal__.distribute": "strategy_supports_no_merge_call",
        "__internal__.distribute.interim": "maybe_merge_call",
        "__internal__.eager_context": "eager_mode",
        "__internal__.smart_cond": "smart_cond",
        "__internal__.tf2": "enabled",
        "__internal__.tracking": "AutoTrackable Trackable no_automatic_dependency_tracking",
    },
    "composites.value_proto": {"__internal__.saved_model": "decode_proto encode_structure"},
    "composites.linear": {
        "linalg": "LinearOperator LinearOperatorAdjoint LinearOperatorBlockDiag LinearOperatorBlockLowerTriangular "
        "LinearOperatorCirculant LinearOperatorCirculant2D LinearOperatorCirculant3D LinearOperatorComposition "
        "LinearOperatorDiag LinearOperatorFullMatrix LinearOperatorHouseholder LinearOperatorIdentity "
        "LinearOperatorInversion LinearOperatorKronecker LinearOperatorLowRankUpdate LinearOperatorLowerTriangular "
        "LinearOperatorPermutation LinearOperatorScaledIdentity LinearOperatorToeplitz LinearOperatorTridiag "
        "LinearOperatorZeros",
    },
    "public.xla": {"xla.experimental": "compile jit_scope"},
    "lookup": {"": "lookup"},
    "onnx": {"": "onnx"},
    "ops.bessel": {
        "math": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e",
        "math.special": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e "
        "bessel_y0 bessel_y1 dawsn expint fresnel_cos fresnel_sin spence",
    },
    "ops.fake_quant": {
        "quantization": "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars "
        "fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient",
    },
    "ops.stft": {
        "signal": "dct frame idct inverse_mdct inverse_stft mdct mfccs_from_log_mel_spectrograms overlap_and_add stft",
    },
    "ops.incomplete": {
        "math": "betainc erfcinv igamma igammac lbeta zeta",
    },
    "ops.index_shuffle": {
        "": "random_index_shuffle",
        "random.experimental": "index_shuffle",
    },
    "ops.isotonic": {
        "nn": "isotonic_regression",
    },
    "ops.lu": {
        "linalg": "lu lu_matrix_inverse lu_reconstruct lu_solve",
    },
    "ops.matrix_algebra": {
        "linalg": "adjoint cross normalize tensor_diag tensor_diag_part",
    },
    "ops.matrix_functions": {
        "": "matrix_square_root",
        "linalg": "expm logm lstsq matrix_rank pinv sqrtm",
    },
    "ops.morphology": {
        "nn": "dilation2d erosion2d max_pool_with_argmax",
    },
    "ops.partition": {
        "": "batch_to_space dynamic_partition dynamic_stitch extract_volume_patches required_space_to_batch_paddings "
        "reverse_sequence space_to_batch space_to_batch_nd unravel_index",
        "nn": "space_to_batch",
    },
    "ops.solve": {
        "linalg": "cholesky cholesky_solve det inv logdet slogdet solve triangular_solve",
    },
    "ops.spectral": {
        "": "eig eigvals",
        "linalg": "eig eigh eigvals eigvalsh qr svd",
    },
    "ops.spectrum": {
        "": "fftnd ifftnd irfftnd rfftnd",
        "signal": "fft fft2d fft3d fftnd fftshift ifft ifft2d ifft3d ifftnd ifftshift irfft irfft2d irfft3d irfftnd rfft rfft2d "
        "rfft3d rfftnd",
    },
    "ops.statistics": {
        "nn": "batch_norm_with_global_normalization compute_average_loss crelu normalize_moments scale_regularization_loss "
        "sufficient_statistics",
    },
    "ops.strings": {
        "": "as_string fingerprint",
        "dtypes": "as_string",
        "io": "decode_base64 decode_raw encode_base64 matching_files read_file serialize_tensor write_file",
        "io.gfile": "GFile copy exists get_registered_schemes glob isdir join listdir makedirs mkdir remove rename rmtree stat "
        "walk",
        "strings": "as_string format join length lower reduce_join regex_full_match regex_replace strip substr to_hash_bucket "
        "to_hash_bucket_fast to_hash_bucket_strong to_number unicode_script unicode_transcode unsorted_segment_join "
        "upper",
    },
    "ops.wav": {"audio": "decode_wav encode_wav"},
    "ops.window_functions": {
        "signal": "hamming_window hann_window inverse_stft_window_fn kaiser_bessel_derived_window kaiser_window "
        "linear_to_mel_weight_matrix vorbis_window",
    },
    "ops.tridiagonal": {
        "linalg": "banded_triangular_solve eigh_tridiagonal tridiagonal_matmul tridiagonal_solve",
    },
    "passes": {"": "passes"},
    "rng.tf_initializers": {
        "": "constant_initializer ones_initializer random_normal_initializer random_uniform_initializer zeros_initializer",
    },
    "frontend.library.plain_optimizers": {"": "mixed_precision optimizers"},
    "frontend.host.queue": {"": "queue"},
    "composites.ragged": {
        "": "RaggedTensor RaggedTensorSpec ragged ragged_fill_empty_rows ragged_fill_empty_rows_grad",
        "experimental": "DynamicRaggedShape RowPartition",
        "sparse": "cross cross_hashed",
        "strings": "bytes_split ngrams split unicode_decode unicode_decode_with_offsets unicode_encode unicode_split "
        "unicode_split_with_offsets",
    },
    "public.cudnn_rnn": {"raw_ops": "CudnnRNN"},
    "public.raw_ops": {
        "raw_ops": "BroadcastGradientArgs Bucketize FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 IgammaGradA "
        "MatrixDiagPartV2 MatrixDiagPartV3 RandomGammaGrad UniqueV2 UniqueWithCountsV2",
    },
    "saved_model": {"": "saved_model"},
    "composites.sparse": {
        "": "SparseTensor SparseTensorSpec edit_distance sparse",
        "compat.v1": "SparseTensor SparseTensorValue",
        "nn": "embedding_lookup_sparse safe_embedding_lookup_sparse",
        "sets": "difference intersection size union",
    },
    "summary": {"": "profiler summary"},
    "private.tensorflow_import": {"": "as_tensorflow"},
    "public.test": {
        "test": "TestCase compute_gradient is_built_with_cuda is_built_with_gpu_support is_built_with_rocm is_built_with_xla "
        "main"
    },
    "train": {"": "train"},
    "v1.graph": {"": "Graph"},
}
"""Lazily imported module -> the public names that it declares, by namespace."""
LATE_MODULES = {
    f"{space}.{name}" if space else name: module_name
    for module_name, spaces in LATE.items()
    for space, names in spaces.items()
    for name in names.split()
}
"""Public path -> the lazily imported module that declares it."""
SPACES = {"experimental.numpy": "arrays", "ragged": "composites.ragged", "sparse": "composites.sparse"}
"""Namespace -> the module that declares all its names; ``import`` finds these namespaces before the module is imported."""
PACKAGES = ("keras",)
"""Modules that wrap another package and have that package's names."""
OF_KERAS = ("initializers", "losses", "metrics", "optimizers")
"""Namespaces that are those of ``tf.keras``, as in TensorFlow, if Keras is installed."""
WITHOUT_KERAS = {"initializers": "rng.keras_initializers", "optimizers": "frontend.library.plain_optimizers"}
"""The modules that declare them if Keras is not installed."""
OLDEST_PYTHON = (3, 11)
"""The oldest version of Python that Keras 3.15 supports."""
_LATE_SPACES = sorted({*(space for spaces in LATE.values() for space in spaces if space), *SPACES} - {*OF_KERAS})
_NOT_INSTALLED = object()
_installed: dict[str, Any] = {}
on_install: list[Callable[[list[Any]], None]] = []
"""Functions that receive the new public functions and classes whenever `install` publishes some."""


def install() -> None:
    """Sets newly declared public functions and classes as attributes of ``tvtf`` and its namespaces.

    For example, the function declared as ``"math.sin"`` becomes the attribute ``sin`` of the module ``tvtf.math``. A lazily
    imported module calls this function at its end.
    """
    root = sys.modules["tvtf"]
    add_pending_handlers()
    for namespace in _LATE_SPACES:
        if not _is_unimported_module(namespace):
            make_lazy(_namespace_module(root, namespace.split(".")), namespace)
    published = []
    for path, value in public_names().items():
        top_namespace = path.partition(".")[0]
        if (
            _installed.get(path, _NOT_INSTALLED) is value
            or _is_unimported_module(top_namespace)
            or _is_keras_namespace(top_namespace)
        ):
            continue
        _installed[path] = value
        published.append(value)
        *submodules, name = path.split(".")
        module = _namespace_module(root, submodules)
        setattr(module, name, value)
        _make_picklable(value, module, name)
        if module is not root:
            make_lazy(module, ".".join(submodules))
    for receive in on_install:
        receive(published)


def _is_unimported_module(namespace: str) -> bool:
    """Returns whether a namespace has a source file that is not imported yet.

    No module may be generated for such a namespace, because it would hide the source file.
    """
    return namespace in LATE and f"tvtf.{namespace}" not in sys.modules


@cache
def has_keras() -> bool:
    """Returns whether Keras 3 is installed and Python is new enough for it, without importing Keras."""
    if sys.version_info < OLDEST_PYTHON:
        return False
    spec = PathFinder.find_spec("keras")
    # tvtf.keras takes its names from the folder _tf_keras.
    return spec is not None and spec.origin is not None and Path(spec.origin).with_name("_tf_keras").is_dir()


def _is_keras_namespace(name: str) -> bool:
    """Returns whether the namespace ``tf.<name>`` is that of ``tf.keras``, as ``tf.losses`` is.

    Without Keras, tvtf has initializers and optimizers of its own, but no losses and metrics.
    """
    return name in OF_KERAS and (name not in WITHOUT_KERAS or has_keras())


def _make_picklable(value: Any, module: ModuleType, name: str) -> None:
    """Sets a function's ``__module__`` and ``__qualname__`` to its public path if ``pickle`` could not find it otherwise.

    ``pickle`` stores a function by these two names. A decorated function may have another value under them.
    """
    if isfunction(value) and getattr(sys.modules[value.__module__], value.__qualname__, None) is not value:
        value.__module__, value.__qualname__ = module.__name__, name


def make_lazy(module: ModuleType, path: str) -> ModuleType:
    """Gives the module ``tf.<path>`` a ``__getattr__`` that imports a public name on its first use. Returns the module.

    For a name that tvtf does not have, the AttributeError explains why. ``dir`` lists the names that aren't imported yet, too.
    """

    def import_attribute(name: str) -> Any:
        # The import system, inspect and AutoGraph read such names. No public name is one of them.
        if name.startswith("__"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return late(module, f"{path}.{name}")

    def list_names() -> list[str]:
        """Implements ``dir`` of the namespace: its names, also those of modules that are imported on first use."""
        if path.startswith(V1_PREFIX):
            return sys.modules["tvtf.compat.v1"].__dir__(path.removeprefix(V1_PREFIX))  # type: ignore[call-arg,return-value]
        if path in SPACES:
            _import(SPACES[path])
            install()
        late_names = (each.removeprefix(f"{path}.") for each in LATE_MODULES if each.startswith(f"{path}."))
        return sorted({*vars(module), *(name.partition(".")[0] for name in late_names)})

    vars(module).setdefault("__getattr__", import_attribute)
    vars(module).setdefault("__dir__", list_names)
    return module


def _import(module_name: str) -> ModuleType:
    """Imports the module ``tvtf.<module_name>``, and returns it."""
    return import_whole(f"tvtf.{module_name}")


def late(module: ModuleType, path: str) -> Any:
    """Returns the value of ``tf.<path>``, after importing the module that declares this public name.

    For some names that only TensorFlow has, a placeholder is returned: a namespace, or a class that can't be instantiated.

    Args:
      module: the namespace, which doesn't have the attribute yet.
      path: the public name with its namespaces, such as ``"linalg.lu"``.

    Raises:
      AttributeError: no module declares the name. The error is also a NotImplementedError if TensorFlow has the name.
    """
    if path in PACKAGES:
        return _import(path)
    if _is_keras_namespace(path):
        return getattr(_import("keras"), path)
    namespace, _, name = path.rpartition(".")
    module_name = LATE_MODULES.get(path) or SPACES.get(namespace) or WITHOUT_KERAS.get(path)
    if module_name:
        _import(module_name)
        install()
    if name in vars(module):
        return vars(module)[name]
    if path.startswith(V1_PREFIX):
        return sys.modules["tvtf.compat.v1"].__getattr__(path.removeprefix(V1_PREFIX))
    if path in unsupported.SPACES:
        return _namespace_module(sys.modules["tvtf"], path.split("."))
    unsupported_class = unsupported.class_of_unsupported(path)
    if unsupported_class:
        return unsupported_class
    raise unsupported.error(module.__name__, path)


def _is_late_namespace(name: str) -> bool:
    """Returns whether a module is a namespace without a source file of this name, such as ``tvtf.optimizers``.

    Such a namespace is created, or taken from Keras, on its first use.
    """
    root, *path = name.split(".")
    if root != "tvtf" or not path:
        return False
    prefixes = [".".join(path[: end + 1]) for end in range(len(path))]
    # A prefix declared by a module of the same name is that module; Python's own finder imports it.
    return path[0] in OF_KERAS or any(LATE_MODULES.get(prefix, prefix) != prefix for prefix in prefixes)


def _late_namespace(name: str) -> ModuleType:
    """Imports a namespace that is created, or taken from Keras, on its first use, such as ``tvtf.optimizers``.

    Raises:
      ModuleNotFoundError: tvtf has no namespace of this name.
    """
    path = name.removeprefix("tvtf.")
    if _is_keras_namespace(path.partition(".")[0]):
        # Importing the package waits for another thread that is importing it. Importing a submodule alone does not wait.
        _import("keras")
        return _import(f"keras.{path}")
    module: Any = sys.modules["tvtf"]
    for attribute_name in path.split("."):  # reading an attribute creates the namespace
        module = getattr(module, attribute_name, None)
    if name not in sys.modules:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return sys.modules[name]


sys.meta_path.insert(0, ModuleAliases(_is_late_namespace, _late_namespace))  # type: ignore[arg-type]


V1_PREFIX = "compat.v1."
"""The prefix of TensorFlow 1's namespace, which has all names of ``tf``, too."""


def all_names() -> dict[str, Any]:
    """Imports all lazily imported modules, and returns the value of every public name by its path."""
    import_late()
    return public_names()


def import_late(path: str | None = None) -> None:
    """Imports the lazily imported module that declares ``tf.<path>``; without a path, all of these modules.

    Raises:
      KeyError: no lazily imported module declares the path.
    """
    for module_name in sorted(set(LATE_MODULES.values())) if path is None else [_module_declaring(path)]:
        _import(module_name)


def _module_declaring(path: str) -> str:
    """Returns the name of the lazily imported module that declares ``tf.<path>`` or the nearest namespace around it.

    For example, ``"train.Checkpoint"`` is in the namespace ``train``, which the module ``train`` declares.

    Raises:
      KeyError: no lazily imported module declares one of the paths.
    """
    declared = LATE_MODULES | SPACES
    namespace = path
    while namespace and namespace not in declared:
        namespace = namespace.rpartition(".")[0]
    if not namespace:
        raise KeyError(path)
    return declared[namespace]


hooks.import_late = import_late


def _namespace_module(root: ModuleType, names: list[str]) -> ModuleType:
    """Returns the module of a public namespace, given by its names below ``root``; creates missing modules."""
    module = root
    for name in names:
        existing = vars(module).get(name) or sys.modules.get(f"{module.__name__}.{name}")
        module = existing if isinstance(existing, ModuleType) else _new_module(module, name)
    return module


def _new_module(parent: ModuleType, name: str) -> ModuleType:
    """Creates an empty module for a public namespace below ``parent``; its names are imported on their first use."""
    full_name = f"{parent.__name__}.{name}"
    module = ModuleType(full_name, f"Public functions of ``{full_name}``, collected from the ops that declare them.")
    module.__path__ = []  # makes it a package, so that namespaces below it can be imported
    sys.modules[full_name] = module
    setattr(parent, name, module)
    return make_lazy(module, full_name.partition(".")[2])
