"""Checkpoints between TensorFlow 1 and 2: by name and by object, in sessions and outside, either way."""

import os
import tempfile


def programs(tf):
    return {**_by_name(tf), **_by_object(tf), **_started(tf), **_assigned(tf)}


def _three(tf, values, scope=""):
    """Variables of a graph."""
    v1, start = tf.compat.v1, tf.compat.v1.constant_initializer
    with v1.variable_scope(scope) if scope else tf.name_scope(""):
        return [v1.get_variable(name, [], initializer=start(value)) for name, value in zip(("a", "b", "in/c"), values)]


def _eager(tf, values):
    return [tf.Variable(float(value), name=name) for name, value in zip(("a", "b", "in/c"), values)]


def _saved_in_session(tf, folder):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        _three(tf, (1, 2, 3))
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        return saver.save(session, os.path.join(folder, "old"))


def _listed(tf, path):
    return [(name, shape) for name, shape in tf.train.list_variables(path) if not name.startswith("_")]


def _by_name(tf):
    v1 = tf.compat.v1

    def out_of_session():
        with tempfile.TemporaryDirectory() as folder:
            variables = _eager(tf, (0, 0, 0))
            v1.train.Saver(variables).restore(None, _saved_in_session(tf, folder))
            return [float(v.numpy()) for v in variables]

    def without_session():
        with tempfile.TemporaryDirectory() as folder:
            path = v1.train.Saver(_eager(tf, (4, 5, 6))).save(None, os.path.join(folder, "eager"), global_step=7)
            return os.path.basename(path), _listed(tf, path), sorted(os.listdir(folder))

    def into_session():
        with tempfile.TemporaryDirectory() as folder:
            path = v1.train.Saver(_eager(tf, (4, 5, 6))).save(None, os.path.join(folder, "eager"))
            with tf.Graph().as_default(), v1.Session() as session:
                variables = _three(tf, (0, 0, 0))
                v1.train.Saver(variables).restore(session, path)
                return session.run(variables)

    def as_objects(names=(0, 1, 2), more=()):
        with tempfile.TemporaryDirectory() as folder:
            variables = _eager(tf, (0, 0, 0))
            chosen = [*(variables[n] for n in names), *more]
            status = tf.train.Checkpoint(variables=chosen).restore(_saved_in_session(tf, folder))
            return status, chosen

    def restored_by_name():
        _, variables = as_objects()
        return [float(v.numpy()) for v in variables]

    def consumed_by_name():
        status, _ = as_objects()
        return status.assert_consumed() is status, status.assert_existing_objects_matched() is status

    def missing_by_name():
        status, variables = as_objects((0,), [tf.Variable(9.0, name="other")])
        try:
            status.assert_consumed()
        except AssertionError as error:
            return [float(v.numpy()) for v in variables], str(error).splitlines()[0]

    def other_shape():
        with tempfile.TemporaryDirectory() as folder:
            wide = tf.Variable([1.0, 2.0], name="b")
            try:
                tf.train.Checkpoint(variables=[wide]).restore(_saved_in_session(tf, folder))
            except ValueError:
                return wide.numpy()

    return {
        "restored without a session": out_of_session,
        "saved without a session": without_session,
        "from outside into a session": into_session,
        "all variables without a session": lambda: v1.train.Saver(),
        "a checkpoint by name into objects": restored_by_name,
        "all of it was used": consumed_by_name,
        "a name that it lacks": missing_by_name,
        "another shape by name": other_shape,
    }


def _by_object(tf):
    v1 = tf.compat.v1

    def saved(folder, values=(1, 2, 3)):
        with tf.Graph().as_default(), v1.Session() as session:
            a, b, c = _three(tf, values)
            session.run(v1.global_variables_initializer())
            session.run(b.assign_add(10.0))
            return tf.train.Checkpoint(outer=[a, b], inner=[c]).save(os.path.join(folder, "objects"))

    def listed():
        with tempfile.TemporaryDirectory() as folder:
            return _listed(tf, saved(folder)), os.path.basename(tf.train.latest_checkpoint(folder))

    def in_session():
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder)
            with tf.Graph().as_default(), v1.Session() as session:
                a, b, c = _three(tf, (0, 0, 0))
                session.run(v1.global_variables_initializer())
                status = tf.train.Checkpoint(outer=[a, b], inner=[c]).restore(path)
                before = session.run([a, b, c])
                status.assert_consumed().run_restore_ops()
                return before, session.run([a, b, c])

    def in_a_session_named():
        with tempfile.TemporaryDirectory() as folder:
            path = saved(folder)
            with tf.Graph().as_default():
                a, b, c = _three(tf, (7, 8, 9))
                session = v1.Session()
                tf.train.Checkpoint(outer=[a, b]).restore(path).initialize_or_restore(session)
                return session.run([a, b])

    def nothing_to_restore():
        with tf.Graph().as_default(), v1.Session() as session:
            a, _, _ = _three(tf, (7, 8, 9))
            tf.train.Checkpoint(a=a).restore(None).initialize_or_restore()
            return session.run(a)

    def out_of_session():
        with tempfile.TemporaryDirectory() as folder:
            a, b, c = _eager(tf, (0, 0, 0))
            tf.train.Checkpoint(outer=[a, b], inner=[c]).restore(saved(folder)).assert_consumed()
            return [float(v.numpy()) for v in (a, b, c)]

    def into_session():
        with tempfile.TemporaryDirectory() as folder:
            path = tf.train.Checkpoint(v=_eager(tf, (4, 5, 6))).save(os.path.join(folder, "eager"))
            with tf.Graph().as_default(), v1.Session() as session:
                variables = _three(tf, (0, 0, 0))
                tf.train.Checkpoint(v=variables).restore(path).run_restore_ops()
                return session.run(variables)

    def counted():
        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), v1.Session() as session:
            a, _, _ = _three(tf, (1, 2, 3))
            session.run(v1.global_variables_initializer())
            checkpoint = tf.train.Checkpoint(a=a)
            return [os.path.basename(checkpoint.save(os.path.join(folder, "n"))) for _ in range(3)]

    return {
        "objects of a graph": listed,
        "objects of a graph, restored": in_session,
        "in a session that is named": in_a_session_named,
        "nothing to restore in a graph": nothing_to_restore,
        "objects of a graph, outside": out_of_session,
        "objects from outside in a graph": into_session,
        "counted in a graph": counted,
    }


def _started(tf):
    v1 = tf.compat.v1

    def started(assignment, scope="new"):
        with tempfile.TemporaryDirectory() as folder:
            path = _saved_in_session(tf, folder)
            with tf.Graph().as_default(), v1.Session() as session:
                variables = _three(tf, (7, 8, 9), scope)
                v1.train.init_from_checkpoint(path, assignment(variables))
                session.run(v1.global_variables_initializer())
                return session.run(variables)

    def rejected(assignment):
        try:
            started(assignment)
        except ValueError as error:
            return str(error).partition(" checkpoint ")[0].partition(" is not found")[0]

    return {
        "all scopes": lambda: started(lambda _: {"/": "new/"}),
        "one scope": lambda: started(lambda _: {"in/": "new/in/"}),
        "by variable": lambda: started(lambda v: {"a": v[1], "in/c": v[0]}),
        "by name": lambda: started(lambda _: {"a": "new/b"}),
        "as pairs": lambda: started(lambda v: [("a", v[1]), ("a", v[0])]),
        "no such tensor": lambda: rejected(lambda v: {"z": v[0]}),
        "no such tensor in a scope": lambda: rejected(lambda _: {"z/": "new/"}),
        "a scope from a name": lambda: rejected(lambda _: {"a": "new/"}),
    }


def _assigned(tf):
    """Variables that are assigned before they are initialized."""
    v1 = tf.compat.v1

    def run(*steps):
        with tf.Graph().as_default(), v1.Session() as session:
            a, b, c = _three(tf, (1, 2, 3))
            return [session.run(step(a, b)) for step in steps]

    def rejected(*steps):
        try:
            run(*steps)
        except tf.errors.OpError:
            return "not initialized"

    return {
        "assigned first": lambda: run(lambda a, b: a.assign(5.0), lambda a, b: a),
        "assigned, then added to": lambda: run(lambda a, b: a.assign(5.0), lambda a, b: a.assign_add(1.0)),
        "read first": lambda: rejected(lambda a, b: a),
        "added to first": lambda: rejected(lambda a, b: a.assign_add(1.0)),
        "assigned of itself": lambda: rejected(lambda a, b: a.assign(a + 1.0)),
        "assigned of another": lambda: rejected(lambda a, b: a.assign(b)),
    }
