"""AutoGraph: converted Python equals Python on eager tensors; errors name the user's own lines."""

import gc
import inspect
import logging
import weakref

import numpy as np
import pytest
from program_files import loaded

import tvtf as tf
from tvtf.frontend.autograph import loops


def line_of(function, text):
    """The number of the line of ``function`` that contains ``text``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def branch(x):
    if x > 0:
        y = x * 2
    else:
        y = -x
    return y


def early_return(x):
    if x > 2:
        return x * 10
    if x > 0:
        return x
    return -x


def while_with_break_and_continue(n):
    i, total = 0, 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        if i > 7:
            break
        total += i
    return total * 100 + i


def for_over_tf_range(n):
    total = 0
    for i in tf.range(tf.maximum(n, 0)):
        total += i * i
    return total


def for_over_range_with_step(n):
    total = 0
    for i in range(20, n, -3):
        total = total * 2 + i
    return total


def return_in_loop(n):
    for i in tf.range(10):
        if i * i > n:
            return i
    return -1


def nested_loops(n):
    total = 0
    for i in range(n):
        for j in tf.range(i):
            if j > 2:
                break
            total += i * j
        else_value = total
        total = else_value + 1
    return total


def boolean_operators(n):
    if (n > 1 and n < 5) or not n > -3:
        return 1
    return 0


def chained_comparison(n):
    return 1 if 0 < n < 5 else 2


def python_loop(n):
    for factor in [1, 2, 3]:
        n = n * factor
    return n


def ternary(n):
    return n * 2 if n > 3 else n - 1


def conversions(n):
    return int(float(n) * 1.5) + max(n, 3) + min(n, 2)


def nonlocal_state(n):
    count = 0

    def step():
        nonlocal count
        count += n

    for _ in range(3):
        step()
    return count


def structured(n):
    pair = {"a": n, "b": (n, 1)}
    while pair["a"] > 0:
        pair = {"a": pair["a"] - 2, "b": (pair["b"][0] + 1, pair["b"][1])}
    return pair["b"][0]


def walrus(n):
    if (m := n * 2) > 4:
        return m
    return m + 1


def negation(n):
    return int(not n > 2)


def conjunction(n):
    return int(n > 0 and n < 3)


def loop_with_break(n):
    while n > 0:
        n -= 3
        if n < 7:
            break
    return n


def loop_with_continue(n):
    total = 0
    for i in tf.range(5):
        if i > n:
            continue
        total += i
    return total


def straight_line(n):
    """Nothing in it is rewritten, except for calls."""
    twice, unused = abs(n) * 2, 1
    del unused
    return max(twice, 3)


def return_inside_with(n):
    with tf.name_scope("scope"):
        return n + 1


def return_inside_try(n):
    try:
        return n + 1
    finally:
        n = 5


def early_return_of_nested_function(n):
    def inner(m):
        if m > 2:
            return m
        return m * 2

    return inner(n) + (lambda m: m if m > 0 else 7)(n)


def no_return_of_nested_function(n):
    seen = []

    def inner(m):
        seen.append(m if m > 1 else 1)

    inner(n)
    return seen[0]


PROGRAMS = [
    negation,
    conjunction,
    loop_with_break,
    loop_with_continue,
    straight_line,
    return_inside_with,
    return_inside_try,
    early_return_of_nested_function,
    no_return_of_nested_function,
    branch,
    early_return,
    while_with_break_and_continue,
    for_over_tf_range,
    for_over_range_with_step,
    return_in_loop,
    nested_loops,
    boolean_operators,
    chained_comparison,
    python_loop,
    ternary,
    conversions,
    nonlocal_state,
    structured,
    walrus,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_traced_equals_python(program):
    compiled = tf.function(program)
    for n in (-4, 0, 1, 2, 4, 30):
        assert int(compiled(tf.constant(n))) == int(program(n)), n
    assert compiled.experimental_get_tracing_count() == 1


def test_loops_over_tensors():
    def rows(x):
        total = tf.zeros([2])
        for i, row in enumerate(x):
            total += row * tf.cast(i, tf.float32)
        for row, again in zip(x, x):
            total += row * again
        return total

    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    expected = (x * np.arange(3)[:, None]).sum(0) + (x * x).sum(0)
    np.testing.assert_array_equal(tf.function(rows)(tf.constant(x)), expected)
    unknown = tf.function(rows, input_signature=[tf.TensorSpec([None, 2])])
    np.testing.assert_array_equal(unknown(tf.constant(x)), expected)
    np.testing.assert_array_equal(unknown(tf.constant(x[:0])), [0.0, 0.0])


def test_a_converted_function_is_garbage_collected():
    def closing_over(captured):
        def closure(n):
            return n if captured else -n

        return closure

    module = tf.Module()
    reference = weakref.ref(module)
    tf.function(closing_over(module))(tf.constant(1))
    del module
    gc.collect()
    assert reference() is None


def helper(x):
    if x > 2:
        return x
    return x * 100


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.total = tf.Variable(0)
        self.limit = 3

    def more(self, n):
        return n < self.limit

    def __call__(self, n):
        while self.more(n):
            n += 1
            self.total.assign_add(n)
        return n


class Doubling(Counter):
    def __call__(self, n):
        return super().__call__(n) * 2


def test_called_functions_methods_lambdas_partials_and_super_are_converted():
    import functools

    module, twice = Counter(), Doubling()
    part = functools.partial(lambda a, b: helper(a) if b > 0 else a, b=tf.constant(1))

    @tf.function
    def program(n):
        return module(n) + twice(n) + part(n) + (lambda v: v if v > 1 else -v)(n)

    assert int(program(tf.constant(0))) == 3 + 6 + 0 + 0
    assert int(module.total) == 6
    assert int(program(tf.constant(5))) == 5 + 10 + 5 + 5


def test_parameters_of_inner_functions_are_no_variables_of_the_outer_one():
    @tf.function
    def early(x, is_doubled):
        double = lambda y: y * 2  # noqa: E731

        def triple(z: int):
            return z * 3

        if is_doubled:
            y = double(x)
            z = triple(y)
            if z > 9:
                y = y + z
            return y
        else:
            for _ in tf.range(2):
                y = double(x)
                x += y
            return x

    assert early(tf.constant(2), True).numpy() == 4 + 12
    assert early(tf.constant(2), False).numpy() == 18

    @tf.function
    def unchanged(x):
        y = 3
        for _ in tf.range(2):
            double = lambda y: y * 2  # noqa: E731
            x = double(x)
        return [x] * y

    assert len(unchanged(tf.constant(1))) == 3


def test_attributes_assigned_in_branches_and_loops():
    class Holder:
        value = 1

    holder = Holder()

    @tf.function
    def program(n):
        holder.value = n
        if n > 2:
            holder.value = n * 2
        while holder.value < 100:
            holder.value = holder.value * 2
        return holder.value

    assert int(program(tf.constant(5))) == 160
    assert int(program(tf.constant(1))) == 128


def test_gradients_go_through_converted_control_flow():
    @tf.function
    def slope(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in tf.range(n):
                if i > 1:
                    break
                y = y * x if y < 10.0 else y + x
        return tape.gradient(y, x)

    assert float(slope(tf.constant(3.0), tf.constant(9))) == 27.0
    assert float(slope(tf.constant(3.0), tf.constant(1))) == 6.0
    assert float(slope(tf.constant(4.0), tf.constant(9))) == 9.0


def test_a_million_turns_of_a_converted_loop():
    @tf.function
    def count(n):
        i = 0
        while i < n:
            i += 1
        return i

    assert int(count(tf.constant(1_000_000))) == 1_000_000


def test_loop_options():
    @tf.function
    def count(n):
        i = 0
        while i < n:
            tf.autograph.experimental.set_loop_options(maximum_iterations=3)
            i += 1
        return i

    assert int(count(tf.constant(10))) == 3
    assert int(count(tf.constant(2))) == 2


def test_variables_defined_in_a_loop_are_checked_only_where_they_are_used():
    def program(n):
        while n > 0:
            n -= 1
            last = n * 2
        return last

    compiled = tf.function(program)
    assert int(compiled(tf.constant(3))) == 0
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        compiled(tf.constant(0))
    assert str(error.value).startswith("loop must iterate at least once to initialize last")


def undefined_in_else(x):
    if x > 0:
        z = x
    return z


def undefined_in_main(x):
    if x > 0:
        pass
    else:
        z = x
    return z


def none_in_else(x):
    if x > 0:
        z = x
    else:
        z = None
    return z


def two_dtypes(x):
    if x > 0:
        z = 1
    else:
        z = 2.0
    return z


def two_structures(x):
    if x > 0:
        z = (x, x)
    else:
        z = (x,)
    return z


def missing_return(x):
    if x > 0:
        return x


def changing_dtype(x):
    i = 0
    while x > 0:
        i = i + 0.5 if False else x
    return i


def changing_shape(x):
    y = x
    while x > 0:
        y = tf.reshape(y, [1])
    return y


def none_after_iteration(x):
    s = x
    while x > 0:
        s = None
    return s


def float_condition(x):
    if x:
        return 1
    return 2


def ternary_dtypes(x):
    return 1 if x > 0 else 2.0


def bad_call(x):
    return tf.matmul_missing(x)


ERRORS = [
    (undefined_in_else, "if x > 0", ValueError, "'z' must also be initialized in the else branch"),
    (undefined_in_main, "if x > 0", ValueError, "'z' must also be initialized in the main branch"),
    (none_in_else, "if x > 0", ValueError, "'z' is None at the end of the else branch."),
    (two_dtypes, "if x > 0", TypeError, "'z' has dtype int32 in the main branch, but dtype float32 in the else branch"),
    (two_structures, "if x > 0", TypeError, "'z' must have the same nested structure in the main and else branches:"),
    (missing_return, "if x > 0", ValueError, "the else branch must also have a return statement."),
    (
        changing_dtype,
        "while x > 0",
        TypeError,
        "'i' has dtype int32 before the loop, but dtype float32 after one iteration",
    ),
    (
        changing_shape,
        "while x > 0",
        ValueError,
        "'y' has shape () before the loop, but shape (1,) after one iteration. Use "
        "tf.autograph.experimental.set_loop_options to set shape invariants.",
    ),
    (none_after_iteration, "while x > 0", ValueError, "'s' is None at the end of the iteration."),
    (
        float_condition,
        "if x:",
        ValueError,
        'condition of if statement expected to be `tf.bool` scalar, got Tensor("x:0", shape=(), dtype=float32); to '
        "use as "
        "boolean Tensor, use `tf.cast`; to check for None, use `is not None`",
    ),
    (
        ternary_dtypes,
        "return 1 if",
        TypeError,
        "'x > 0' has dtype int32 in the main branch, but dtype float32 in the else branch",
    ),
    (bad_call, "tf.matmul_missing", AttributeError, "module 'tvtf' has no attribute 'matmul_missing'"),
]


@pytest.mark.parametrize(("program", "where", "kind", "message"), ERRORS, ids=lambda v: getattr(v, "__name__", ""))
def test_errors_name_the_symbol_and_the_users_line(program, where, kind, message):
    with pytest.raises(kind) as error:
        tf.function(program)(tf.constant(1.0))
    source = inspect.getsourcelines(program)[0]
    code = next(line for line in source if where in line).strip()
    start = (
        f'in user code:\n\n    File "{__file__}", line {line_of(program, where)}, in {program.__name__}  *\n'
        f"        {code}\n\n    {kind.__name__}: {message}"
    )
    assert str(error.value).startswith(start)


def test_errors_in_called_functions_show_both_lines():
    def inner(x):
        return x + tf.constant([1, 2])

    def outer(x):
        return inner(x)

    with pytest.raises(TypeError) as error:
        tf.function(outer)(tf.constant(1.0))
    text = str(error.value)
    assert f"line {line_of(outer, 'return inner')}, in outer  *" in text
    assert f"line {line_of(inner, 'return x +')}, in inner  *" in text


def test_spans_are_the_users_lines():
    def program(x):
        if x > 0:
            x = tf.sin(x)
        return x

    module = tf.function(program).get_concrete_function(tf.constant(1.0)).module()
    spans = {
        str(binding.value.op.name): binding.value.span
        for function in module.functions.values()
        for block in function.body.blocks
        for binding in block.bindings
        if hasattr(binding.value, "op") and binding.value.span is not None
    }
    assert spans["tvtf.sin"].source_name.name == __file__
    assert spans["tvtf.sin"].line == line_of(program, "tf.sin")
    assert spans["tvtf.cond"].line == line_of(program, "if x > 0")


def with_match(n):
    match n:
        case 1:
            return n
    if n > 0:
        return n
    return -n


def test_what_cannot_be_converted_runs_as_it_is_and_says_why(caplog):
    cause = (
        f"match statement in line {line_of(with_match, 'match n')} of {__file__} is not supported by AutoGraph; "
        "write it "
        "with if and while"
    )
    with (
        caplog.at_level(logging.WARNING, "tensorflow"),
        pytest.raises(tf.errors.OperatorNotAllowedInGraphError) as error,
    ):
        tf.function(with_match)(tf.constant(3))
    assert caplog.messages == [
        f"AutoGraph could not transform {with_match} and will run it as-is.\nCause: {cause}\n"
        "To silence this warning, decorate the function with @tf.autograph.experimental.do_not_convert"
    ]
    assert str(error.value).endswith(f"AutoGraph could not transform {with_match}: {cause}")


def test_code_without_source_runs_as_it_is(caplog):
    names = {}
    exec("def double(x):\n  return x + x\ndef pick(x):\n  return x if x > 0 else -x\n", names)
    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert int(tf.function(names["double"])(tf.constant(2))) == 4
    assert caplog.messages[0].startswith(
        f"AutoGraph could not transform {names['double']} and will run it as-is.\nCause: "
    )
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(names["pick"])(tf.constant(2))


def test_do_not_convert():
    @tf.autograph.experimental.do_not_convert
    def plain(x):
        return helper(x)

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(lambda x: plain(x))(tf.constant(2))
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(helper, autograph=False)(tf.constant(2))


def test_breaks_on_tensors_need_a_loop_on_tensors():
    def program(x):
        for i in [1, 2, 3]:
            if x > i:
                break
        return x

    with pytest.raises(NotImplementedError) as error:
        tf.function(program)(tf.constant(1))
    assert "break and return statements which depend on a TF condition are not supported in Python for loops." in str(
        error.value
    )


def test_to_code_and_to_graph():
    code = tf.autograph.to_code(branch)
    assert code.startswith("def tf__branch(x):")
    assert "ag__.if_stmt(ag__.ld(x) > 0, if_body, else_body, get_state, set_state, ('y',), 1)" in code
    assert tf.autograph.to_graph(branch)(3) == 6
    with pytest.raises(ValueError, match="doesn't expose a __code__ object"):
        tf.autograph.to_code(len)


def test_assertions_on_tensors_fail_when_the_program_runs():
    @tf.function
    def checked(n):
        assert n > 0, "n must be positive"
        return n + 1

    assert int(checked(tf.constant(1))) == 2
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        checked(tf.constant(0))
    assert str(error.value).startswith("assertion failed: [n must be positive]")


def test_user_exceptions_keep_their_type():
    class Custom(Exception):
        def __init__(self, code, text):
            super().__init__(text)
            self.code = code

    def program(x):
        if x > 0:
            raise Custom(7, "no")
        return x

    with pytest.raises(Custom) as error:
        tf.function(program)(tf.constant(1))
    assert error.value.code == 7


def loop_with_else(n):
    for i in range(3):
        n += i
    else:
        n += 10
    return n


class Private:
    def __init__(self):
        self.__scale = 3

    def scaled(self, n):
        return n * self.__scale


@pytest.mark.parametrize(
    ("program", "where", "construct", "result"),
    [
        (loop_with_else, "for i in", "else clause of a loop", 14),
        (Private().scaled, "self.__scale", "private name __scale", 3),
    ],
)
def test_unsupported_constructs_are_named_with_their_line(caplog, program, where, construct, result):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert int(tf.function(program)(tf.constant(1))) == result
    assert f"Cause: {construct} in line {line_of(program, where)} of {__file__} is not supported" in caplog.text


def string_branches(x):
    name, box = "zero", {"kind": "none", "size": 0}
    if x > 0:
        name, box = "pos", {"kind": b"large", "size": 2}
    for i in tf.range(3):
        name = name + "!"
        if tf.cast(i, tf.float32) > x:
            box["kind"] = "late"
            break
    return name, box, "big" if x > 2 else "small"


@pytest.mark.parametrize("x", [3.0, 0.5, -1.0])
def test_strings_of_branches_and_loops_become_tensors(x):
    x = tf.constant(x)
    wanted = tf.nest.map_structure(tf.convert_to_tensor, string_branches(x))
    found = tf.function(string_branches)(x)
    assert tf.nest.map_structure(lambda t: t.numpy(), found) == tf.nest.map_structure(lambda t: t.numpy(), wanted)


def test_a_string_of_both_branches_is_a_tensor():
    kinds = []

    @tf.function
    def function(x):
        if x > 0:
            name = "same"
        else:
            name = "same"
        kinds.append(name)
        return "late" if name == "other" else name

    assert function(tf.constant(1.0)).numpy() == b"same"
    assert kinds[0].dtype is tf.string


def test_a_string_in_one_branch_and_a_number_in_the_other_is_rejected():
    @tf.function
    def function(x):
        if x > 0:
            name = "pos"
        else:
            name = 1
        return name

    with pytest.raises(
        TypeError, match="'name' has dtype string in the main branch, but dtype int32 in the else branch"
    ):
        function(tf.constant(1.0))


def test_programs_of_this_package_are_converted_as_a_users_are():
    from tvtf.frontend.autograph import calls

    source = "def total(n):\n    s = 0\n    for i in tf.range(n):\n        s += i\n    return s\n"
    for module, converted in (("tvtf.models.mine", True), ("tvtf.models", True), ("tvtf.models_of", False)):
        space = {"__name__": module, "tf": tf}
        exec(source, space)
        assert calls._is_user_code(space["total"]) is converted


def test_a_librarys_function_is_converted_on_explicit_request():
    def total(rows):
        s = 0.0
        for row in rows:
            s += row
        return s

    total.__module__ = "keras.mine"
    rows = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0])
    assert float(tf.function(total)(rows)) == 6.0

    def branch(x):
        return 1.0 if x > 0.0 else 2.0

    branch.__module__ = "keras.mine"
    assert float(tf.function(branch)(tf.constant(-1.0))) == 2.0
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(lambda x: branch(x))(tf.constant(-1.0))


def test_an_assertion_says_what_an_expression_says():
    @tf.function
    def checked(x):
        assert x.shape.rank == 0, f"rank {x.shape.rank}"
        for _ in tf.range(2):  # converted: the message does not keep the function as it is
            x *= 2.0
        assert x > 0.0, ("at least", x.dtype.name)
        return x

    assert checked(tf.constant(1.0)).numpy() == 4.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\('at least', 'float32'\)"):
        checked(tf.constant(-1.0))
    with pytest.raises(AssertionError, match="rank 1"):
        checked(tf.constant([1.0]))


def test_equal_code_in_two_files_keeps_its_own_file(tmp_path):
    """Code objects are equal whatever their file: the converted function of one must not serve the other."""
    files = []
    for name in ("first_of_two.py", "second_of_two.py"):
        module = loaded(tmp_path / name, "def plus_one(x):\n    return x + 1.0\n")
        files.append(str(tf.function(module.plus_one).ir(tf.TensorSpec([2]))))
    assert "first_of_two.py:2" in files[0] and "second_of_two.py:2" in files[1]


def test_a_shape_is_claimed_for_the_variable_that_was_loaded_last():
    """Python 3.13 stores and loads a variable in one instruction, if they are in one line."""

    def body():
        w = 1.0
        y = w; y.set_shape([1])  # fmt: skip # noqa: E702
        return w

    assert loops.claimed_names(body, ("w", "y")) == {"y"}
