"""Every public function shows how it is called, names its source, and what it shows is true."""

import doctest
import re

import pytest

import tvtf  # noqa: F401 - declares everything public
from tvtf.api.namespaces import all_names
from tvtf.core.primitive import table

PUBLIC = {value: path for path, value in sorted(all_names().items(), reverse=True) if callable(value)}
PUBLIC = {value: path for value, path in PUBLIC.items() if getattr(value, "__module__", "") != "numpy"}
DOCUMENTED = {**{prim: name for name, prim in table.items()}, **PUBLIC}


def named(values):
    return [pytest.param(value, id=f"tf.{path}") for value, path in values.items()]


def examples_of(value):
    return doctest.DocTestParser().get_examples(value.__doc__ or "")


@pytest.mark.parametrize("value", named(PUBLIC))
def test_shows_a_call(value):
    assert examples_of(value)


@pytest.mark.parametrize("value", named(PUBLIC))
def test_names_its_source(value):
    assert re.search(r"^\s*Sources?: \S", value.__doc__ or "", re.MULTILINE)


@pytest.mark.parametrize("value", named({v: n for v, n in DOCUMENTED.items() if examples_of(v)}))
def test_what_it_shows_is_true(value):
    found = []
    test = doctest.DocTestParser().get_doctest(value.__doc__, {"__name__": "__main__"}, DOCUMENTED[value], None, None)
    doctest.DocTestRunner().run(test, out=found.append)
    assert not found, "".join(found)
