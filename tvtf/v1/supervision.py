"""Threads that fill queues, hooks, and sessions that initialize and restore themselves: ``MonitoredTrainingSession``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tvtf.core.log import logger
from tvtf.errors import CancelledError, OutOfRangeError
from tvtf.fileio.atomic_file import named_failures
from tvtf.train.checkpoint_state import latest_checkpoint
from tvtf.train.coordinator import Coordinator
from tvtf.v1.decays import get_global_step
from tvtf.v1.default_session import get_default_session
from tvtf.v1.graph import get_default_graph
from tvtf.v1.graph_variable import GraphKeys
from tvtf.v1.registry import v1
from tvtf.v1.saver import Saver
from tvtf.v1.session import Session
from tvtf.v1.summaries import FileWriter, merge_all
from tvtf.v1.variables import global_variables, global_variables_initializer, local_variables_initializer


@v1("train.QueueRunner", "train.queue_runner.QueueRunner")
class QueueRunner:
    """Threads that run enqueue ops until the queue is closed or its input ends.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/QueueRunner
    """

    def __init__(self, queue: Any = None, enqueue_ops: Any = None, *_: Any, **__: Any) -> None:
        if queue is None or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        self.queue = queue
        self.enqueue_ops = list(enqueue_ops)
        self.name = queue.name

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Creates a thread for each enqueue op, and starts the threads if ``start`` is set. Returns the threads.

        With a coordinator ``coord``, a further thread closes the queue when a stop is requested.

        Args:
          sess: the session that runs the enqueue ops.
          coord: a coordinator that stops the threads, or None.
          daemon: whether the program may end before the threads.
          start: whether to start the threads.
        """
        self._running = len(self.enqueue_ops)
        threads = [threading.Thread(target=self._run, args=(sess, op, coord)) for op in self.enqueue_ops]
        if coord is not None:
            threads.append(threading.Thread(target=self._close_on_stop, args=(coord,)))
        for thread in threads:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _run(self, session: Any, op: Any, coord: Any) -> None:
        """Runs an enqueue op in a loop, in a thread of its own.

        The loop ends when the op's input ends, the session is closed, or the coordinator ``coord`` requests a stop.
        """
        try:
            while coord is None or not coord.should_stop():
                session.run(op)
        except (OutOfRangeError, CancelledError):
            self._ended()
        except RuntimeError as error:
            if "closed Session" not in str(error):  # the program may close the session while the queue is being filled
                self._failed(coord, error)
        except Exception as error:
            self._failed(coord, error)

    def _ended(self) -> None:
        self._running -= 1
        if not self._running:
            self.queue.shut()

    def _failed(self, coord: Any, error: Exception) -> None:
        self._ended()
        if coord is None:
            raise error
        coord.request_stop(error)

    def _close_on_stop(self, coord: Any) -> None:
        coord.wait_for_stop()
        self.queue.shut(cancelled=True)


@v1("train.add_queue_runner", "train.queue_runner.add_queue_runner")
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a queue runner, which ``start_queue_runners`` starts."""
    get_default_graph().add_to_collection(collection, qr)


@v1("train.start_queue_runners", "train.queue_runner.start_queue_runners")
def start_queue_runners(
    sess: Any = None,
    coord: Any = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of the graph's queue runners, which fill its queues, and returns them.

    Args:
      sess: the session that runs the enqueue ops; None for the default session.
      coord: a coordinator that stops the threads, or None.
      daemon: whether the program may end before the threads.
      start: whether to start the threads.
      collection: the graph's collection of the queue runners.

    Raises:
      ValueError: there is no session.
    """
    session = sess or get_default_session()
    if session is None:
        raise ValueError("Cannot start queue runners: No default session is registered.")
    runners = session.graph.get_collection(collection)
    return [thread for runner in runners for thread in runner.create_threads(session, coord, daemon, start)]


# -- hooks


@v1("train.SessionRunArgs")
class SessionRunArgs(NamedTuple):
    """The fetches and feeds that a hook adds to a run."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


@v1("train.SessionRunValues")
class SessionRunValues(NamedTuple):
    """The results of the fetches that a hook added."""

    results: Any
    options: Any = None
    run_metadata: Any = None


@v1("train.SessionRunContext")
class SessionRunContext:
    """The run that a hook observes."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self.original_args, self.session, self.stop_requested = original_args, session, False

    def request_stop(self) -> None:
        self.stop_requested = True


@v1("train.SessionRunHook")
class SessionRunHook:
    """Extends the runs of a ``MonitoredSession``."""

    def begin(self) -> None:
        """Called before the session is created; ops may be added."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called after the session was created."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run. Returns fetches and feeds to add to it."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run."""

    def end(self, session: Any) -> None:
        """Called before the session is closed."""


@v1("train.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Requests a stop at a step, or after a number of steps."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Stores when to stop: after ``num_steps`` further steps, or at the global step ``last_step``.

        Exactly one of them must be given.
        """
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._count, self._last = num_steps, last_step

    def begin(self) -> None:
        self._step = _required_step("StopAtStepHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._last is None:
            self._last = int(session.run(self._step)) + int(self._count or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if int(run_context.session.run(self._step)) >= int(self._last or 0):
            run_context.request_stop()


def _required_step(who: str) -> Any:
    step = get_global_step()
    if step is None:
        raise RuntimeError(f"Global step should be created to use {who}.")
    return step


@v1("train.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """The loss is NaN."""

    def __str__(self) -> str:
        return "NaN loss during training."


@v1("train.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """Requests a stop, or raises an error, if a tensor is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if run_values.results != run_values.results:  # NaN is the only number that differs from itself
            if self._fails:
                raise NanLossDuringTrainingError
            run_context.request_stop()


class _Timer:
    """A timer that is due every few runs, or whenever a number of seconds has passed."""

    def __init__(self, runs: int | None, seconds: float | None) -> None:
        self._runs, self._seconds, self._count, self._last_due = runs, seconds, 0, 0.0

    def is_due(self) -> bool:
        """Counts a run of the session, and returns whether the hook's timer is due.

        The timer is due in the first run, then every few runs or seconds.
        """
        run_index = self._count
        self._count += 1
        if self._runs:
            return run_index % self._runs == 0
        now = time.monotonic()
        is_due = now - self._last_due >= (self._seconds or 0)
        if is_due:
            self._last_due = now
        return is_due


@v1("train.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Logs tensors every few runs or seconds."""

    def __init__(
        self, tensors: Any, every_n_iter: int | None = None, every_n_secs: float | None = None, at_end: bool = False,
        formatter: Callable[[Any], str] | None = None,
    ) -> None:  # fmt: skip
        """Stores the tensors to log, and how often: every ``every_n_iter`` runs or every ``every_n_secs`` seconds.

        ``at_end`` logs them at the session's end, too; then both may be None. ``formatter`` converts a dict of values to the
        text.
        """
        if not at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if not isinstance(tensors, dict):
            tensors = {getattr(tensor, "name", tensor): tensor for tensor in tensors}
        self._tensors = tensors
        self._timer = _Timer(every_n_iter, every_n_secs)
        self._formatter = formatter
        self._at_end = at_end
        self._logs_runs = every_n_iter is not None or every_n_secs is not None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._logs_runs and self._timer.is_due()
        return SessionRunArgs(self._tensors) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Logs the values that this run has fetched, if the timer was due before it."""
        if self._due:
            self._log(run_values.results)

    def end(self, session: Any) -> None:
        if self._at_end:
            self._log(session.run(self._tensors))

    def _log(self, values: dict[str, Any]) -> None:
        logger.info(self._formatter(values) if self._formatter else ", ".join(f"{k} = {v}" for k, v in values.items()))


@v1("train.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Has no effect: steps per second are not logged."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accepts any arguments."""


@v1("train.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Runs ops at the end."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Any) -> None:
        self.final_ops_values = session.run(self._ops, self._feeds)


@v1("train.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feeds the results of a function."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self._feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs([], self._feed_fn())


@v1("train.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints every few steps or seconds, and at the end."""

    def __init__(
        self, checkpoint_dir: str, save_secs: float | None = None, save_steps: int | None = None, saver: Any = None,
        checkpoint_basename: str = "model.ckpt", *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        """Stores where and how often to save.

        Args:
          checkpoint_dir: the folder of the checkpoints.
          save_secs, save_steps: the seconds, or the steps, between two checkpoints. Steps decide if both are passed, and
            without either a checkpoint is saved every 10 minutes.
          saver: the saver; None for a new one of all variables.
          checkpoint_basename: the first part of the files' names.
        """
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._saver = saver
        self._folder, self._steps, self._seconds = checkpoint_dir, save_steps, save_secs
        self._saved = (-1, 0.0)  # the step and the time of the last save: none yet

    def begin(self) -> None:
        self._step = _required_step("CheckpointSaverHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._saver = self._saver or Saver()
        self._save(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step, (before, then) = int(run_context.session.run(self._step)), self._saved
        if step - before >= self._steps if self._steps else time.monotonic() - then >= (self._seconds or 600):
            self._save(run_context.session)

    def end(self, session: Any) -> None:
        if int(session.run(self._step)) != self._saved[0]:
            self._save(session)

    def _save(self, session: Any) -> None:
        """Saves a checkpoint under the current global step, and notes when this was."""
        with named_failures(self._folder, "make"):
            os.makedirs(self._folder, exist_ok=True)
        step = int(session.run(self._step))
        self._saver.save(session, self._path, global_step=step)
        self._saved = step, time.monotonic()


@v1("train.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Writes summaries every few runs or seconds."""

    def __init__(
        self, save_steps: int | None = None, save_secs: float | None = None, output_dir: str | None = None, summary_writer: Any = None,
        scaffold: Any = None, summary_op: Any = None,
    ) -> None:  # fmt: skip
        """Stores where to write summaries, and how often: every ``save_steps`` runs or ``save_secs`` seconds."""
        self._timer = _Timer(save_steps, save_secs)
        self._op = summary_op
        self._writer = summary_writer
        self._folder = output_dir

    def begin(self) -> None:
        self._step = _required_step("SummarySaverHook")
        self._op = merge_all() if self._op is None else self._op
        self._writer = self._writer or FileWriter(self._folder)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._op is not None and self._timer.is_due()
        return SessionRunArgs([self._op, self._step]) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._due:
            self._writer.add_summary(*run_values.results)

    def end(self, session: Any) -> None:
        self._writer.flush()


# -- sessions with hooks


@v1("train.Scaffold")
class Scaffold:
    """The ops that initialize a session.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/Scaffold
    """

    def __init__(
        self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Any = None, ready_op: Any = None,
        ready_for_local_init_op: Any = None, local_init_op: Any = None, summary_op: Any = None, saver: Any = None, **_: Any,
    ) -> None:  # fmt: skip
        """Stores the ops that initialize a session. :meth:`finalize` creates those that are None."""
        self.init_op = init_op
        self.init_feed_dict = init_feed_dict
        self.init_fn = init_fn
        self.local_init_op = local_init_op
        self.summary_op = summary_op
        self.saver = saver

    def finalize(self) -> Scaffold:
        """Creates the ops that initialize variables, and the saver, unless they were passed to the constructor."""
        self.init_op = self.init_op if self.init_op is not None else global_variables_initializer()
        self.local_init_op = self.local_init_op if self.local_init_op is not None else local_variables_initializer()
        if self.saver is None and global_variables():
            self.saver = Saver()
        return self


@v1("train.MonitoredSession")
class MonitoredSession:
    """A session that initializes itself, restores checkpoints, and calls hooks around every run.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/MonitoredSession
    """

    def __init__(
        self, session_creator: Any = None, hooks: Sequence[Any] | None = None, stop_grace_period_secs: float = 120, *,
        scaffold: Any = None, checkpoint_dir: str | None = None,
    ) -> None:  # fmt: skip
        """Creates a session, initializes or restores its variables, and starts the threads that fill its queues.

        The hooks are called before and after the session is created.
        """
        self._hooks = list(hooks or ())
        self.graph = get_default_graph()
        for hook in self._hooks:
            hook.begin()
        finalized = (scaffold or getattr(session_creator, "scaffold", None) or Scaffold()).finalize()
        folder = checkpoint_dir or getattr(session_creator, "checkpoint_dir", None)
        file = getattr(session_creator, "checkpoint_filename_with_path", None)
        if folder and file:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        self._session = Session(graph=self.graph)
        self._coord = Coordinator()
        self._ended = False
        checkpoint = file
        if not checkpoint and folder:
            checkpoint = latest_checkpoint(folder)
        self._initialize(finalized, checkpoint)
        start_queue_runners(self._session, self._coord)
        for hook in self._hooks:
            hook.after_create_session(self._session, self._coord)

    def _initialize(self, scaffold: Scaffold, checkpoint: str | None) -> None:
        """Restores the variables from a checkpoint, or initializes them if there is none.

        ``scaffold`` has the saver and the ops that initialize variables.
        """
        if checkpoint:
            scaffold.saver.restore(self._session, checkpoint)
        else:
            self._session.run(scaffold.init_op, scaffold.init_feed_dict)
            if scaffold.init_fn is not None:
                scaffold.init_fn(scaffold, self._session)
        self._session.run(scaffold.local_init_op)  # local variables are not saved

    def should_stop(self) -> bool:
        return self._ended or self._coord.should_stop()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Same as ``Session.run``, but the same run also computes the fetches of the hooks, with the hooks' feeds.

        Each hook's ``before_run`` returns its fetches and feeds, or None, and its ``after_run`` receives the results.
        """
        if self._ended:
            raise RuntimeError("Run called even after should_stop requested.")
        original = SessionRunArgs(fetches, feed_dict, options)
        contexts = [SessionRunContext(original, self._session) for _ in self._hooks]
        feeds = dict(feed_dict or {})
        hook_fetches: list[Any] = []
        for hook, context in zip(self._hooks, contexts):
            args = hook.before_run(context) or SessionRunArgs(None)
            feeds |= args.feed_dict or {}
            hook_fetches.append(args.fetches)
        requested = [[] if hook_fetch is None else hook_fetch for hook_fetch in hook_fetches]
        values, hook_results = self._session.run([fetches, requested], feeds)
        for hook, context, hook_fetch, result in zip(self._hooks, contexts, hook_fetches, hook_results):
            hook_result = None if hook_fetch is None else result
            hook.after_run(context, SessionRunValues(hook_result, options, run_metadata))
            if context.stop_requested:
                self._coord.request_stop()
        return values

    def run_step_fn(self, step_fn: Callable[[Any], Any]) -> Any:
        """Calls a function on a context with the session and ``run_with_hooks``."""
        return step_fn(_StepContext(self))

    @property
    def session(self) -> Session:
        return self._session

    def __enter__(self) -> MonitoredSession:
        self._default = self._session.as_default()
        self._default.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self._default.__exit__(None, None, None)
        ended = kind is None or issubclass(kind, (OutOfRangeError, StopIteration))
        self._close(ended)
        return ended

    def close(self) -> None:
        """Ends the hooks and closes the session."""
        self._close(True)

    def _close(self, is_regular: bool) -> None:
        """Closes the session. If it ends without an error (``is_regular``), calls the hooks' method ``end`` first."""
        if self._ended:  # closed before
            return
        for hook in self._hooks if is_regular else ():
            hook.end(self._session)
        self._ended = True
        self._coord.request_stop()
        self._session.close()


class _StepContext:
    def __init__(self, session: MonitoredSession) -> None:
        self.session, self.run_with_hooks = session.session, session.run
        self.request_stop = session._coord.request_stop


@v1("train.ChiefSessionCreator")
class ChiefSessionCreator:
    """How a session is initialized, and the checkpoint, or the folder of checkpoints, from which it is restored."""

    def __init__(
        self, scaffold: Any = None, master: str = "", config: Any = None, checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:  # fmt: skip
        self.scaffold, self.checkpoint_dir = scaffold, checkpoint_dir
        self.checkpoint_filename_with_path = checkpoint_filename_with_path


@v1("train.SingularMonitoredSession")
class SingularMonitoredSession(MonitoredSession):
    """A ``MonitoredSession`` that is not created again after a failure; tvtf creates neither again.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/SingularMonitoredSession
    """

    def __init__(
        self, hooks: Sequence[Any] | None = None, scaffold: Any = None, master: str = "", config: Any = None,
        checkpoint_dir: str | None = None, stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:  # fmt: skip
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, stop_grace_period_secs)

    def raw_session(self) -> Session:
        return self._session


@v1("train.MonitoredTrainingSession")
def monitored_training_session(
    master: str = "", is_chief: bool = True, checkpoint_dir: str | None = None, scaffold: Any = None, hooks: Any = None,
    chief_only_hooks: Any = None, save_checkpoint_secs: Any = 600, save_summaries_steps: Any = 100, save_summaries_secs: Any = None,
    config: Any = None, stop_grace_period_secs: float = 120, log_step_count_steps: int = 100, max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = None, summary_dir: str | None = None, **_: Any,
) -> MonitoredSession:  # fmt: skip
    """Returns a ``MonitoredSession`` that restores from the checkpoints in ``checkpoint_dir`` and saves to it.

    It also saves summaries to ``summary_dir``, by default ``checkpoint_dir``.

    An interval in steps takes precedence over one in seconds. Other arguments are not used.

    Args:
      checkpoint_dir: the folder of checkpoints, or None.
      scaffold: the ops that initialize the session.
      hooks, chief_only_hooks: hooks that are called before and after each run.
      save_checkpoint_secs, save_checkpoint_steps: the interval between checkpoints.
      save_summaries_secs, save_summaries_steps: the interval between summaries.
      summary_dir: the folder of summaries; None for ``checkpoint_dir``.
    """
    all_hooks = [*(hooks or ()), *(chief_only_hooks or ())]
    folder = summary_dir or checkpoint_dir
    if folder and (save_summaries_steps or save_summaries_secs):
        all_hooks.append(SummarySaverHook(save_summaries_steps, save_summaries_secs, folder))
    if checkpoint_dir and (save_checkpoint_secs or save_checkpoint_steps):
        seconds = None if save_checkpoint_steps else save_checkpoint_secs
        all_hooks.append(CheckpointSaverHook(checkpoint_dir, seconds, save_checkpoint_steps))
    return MonitoredSession(None, all_hooks, scaffold=scaffold, checkpoint_dir=checkpoint_dir)


@v1("train.basic_train_loop")
def basic_train_loop(
    supervisor: Any, train_step_fn: Any, args: Any = None, kwargs: Any = None, master: str = ""
) -> None:
    """Not supported."""
    raise NotImplementedError("tf.compat.v1.train.MonitoredTrainingSession runs a loop with hooks")
