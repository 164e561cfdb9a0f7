"""Constants, and small functions that no other file covers."""


def programs(tf):
    return {
        "saved_model's constants": lambda: _saved_model(tf),
        "error codes": lambda: _errors(tf),
        "error codes by name": lambda: [
            *(tf.errors.ABORTED, tf.errors.ALREADY_EXISTS, tf.errors.DATA_LOSS, tf.errors.DEADLINE_EXCEEDED),
            *(tf.errors.FAILED_PRECONDITION, tf.errors.INTERNAL, tf.errors.INVALID_ARGUMENT, tf.errors.NOT_FOUND),
            *(tf.errors.OUT_OF_RANGE, tf.errors.PERMISSION_DENIED, tf.errors.RESOURCE_EXHAUSTED),
            *(tf.errors.UNAUTHENTICATED, tf.errors.UNAVAILABLE, tf.errors.UNIMPLEMENTED),
        ],
        "types of compat": lambda: [
            isinstance(value, kinds)
            for kinds in (
                *(tf.compat.bytes_or_text_types, tf.compat.complex_types),
                *(tf.compat.integral_types, tf.compat.real_types),
            )
            for value in ("a", b"a", 1, 1.5, 1j)
        ],
        "devices": lambda: [
            isinstance(tf.config.list_physical_devices("CPU")[0], tf.config.PhysicalDevice),
            isinstance(tf.config.list_logical_devices("CPU")[0], tf.config.LogicalDevice),
        ],
        "checkpoints as they come": lambda: list(tf.train.checkpoints_iterator("/nowhere", timeout=0)),
        "dtypes": lambda: [tf.int16, tf.uint32, tf.dtypes.int16, tf.dtypes.uint32, isinstance(tf.int16, tf.DType)],
        "dtypes by another name": lambda: tf.dtypes.DType is tf.DType,
        "executing eagerly": tf.executing_eagerly,
        "executing eagerly in a function": tf.function(tf.executing_eagerly),
        "nested": lambda: [tf.nest.is_nested(x) for x in ([1], (1,), {"a": 1}, "a", 1)],
        "the same structure": lambda: tf.nest.assert_same_structure([1, (2,)], [3, (4,)]),
        "no checkpoint": lambda: tf.train.get_checkpoint_state("/nowhere/to/be/found"),
        "an iterator": lambda: isinstance(iter(tf.data.Dataset.range(1)), tf.data.Iterator),
        "optimizers": lambda: (
            issubclass(tf.keras.optimizers.SGD, tf.keras.optimizers.Optimizer),
            tf.keras.optimizers.Optimizer is tf.keras.Optimizer,
        ),
        "checkpoint options": lambda: tf.train.CheckpointOptions(experimental_io_device=None).experimental_io_device,
    }


def _saved_model(tf):
    return [
        *(tf.saved_model.ASSETS_DIRECTORY, tf.saved_model.ASSETS_KEY, tf.saved_model.CLASSIFY_INPUTS),
        *(tf.saved_model.CLASSIFY_METHOD_NAME, tf.saved_model.CLASSIFY_OUTPUT_CLASSES),
        *(tf.saved_model.CLASSIFY_OUTPUT_SCORES, tf.saved_model.DEBUG_DIRECTORY),
        *(tf.saved_model.DEBUG_INFO_FILENAME_PB, tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY, tf.saved_model.GPU),
        *(tf.saved_model.PREDICT_INPUTS, tf.saved_model.PREDICT_METHOD_NAME, tf.saved_model.PREDICT_OUTPUTS),
        *(tf.saved_model.REGRESS_INPUTS, tf.saved_model.REGRESS_METHOD_NAME, tf.saved_model.REGRESS_OUTPUTS),
        *(tf.saved_model.SAVED_MODEL_FILENAME_PB, tf.saved_model.SAVED_MODEL_FILENAME_PBTXT),
        *(tf.saved_model.SAVED_MODEL_SCHEMA_VERSION, tf.saved_model.SERVING, tf.saved_model.TPU),
        *(tf.saved_model.TRAINING, tf.saved_model.VARIABLES_DIRECTORY, tf.saved_model.VARIABLES_FILENAME),
        tf.saved_model.LoadOptions(experimental_skip_checkpoint=True).experimental_skip_checkpoint,
    ]


def _errors(tf):
    kinds = [
        *(tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError),
        *(tf.errors.FailedPreconditionError, tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError),
    ]
    made = [kind(None, None, "why") for kind in kinds]
    return [(type(e).__name__, e.error_code, e.message, str(e), isinstance(e, tf.errors.OpError)) for e in made]
