"""Functions drawn as SVG: what the boxes say, that nothing overlaps, with graphviz and without."""

import itertools
import random
import shutil
import time
from xml.etree import ElementTree

import pytest

import tvtf as tf
from tests.ir import programs
from tvtf.ir.drawing import Drawing, dot_layout, layered_layout
from tvtf.ir.drawing.graph import Edge, Graph, Node
from tvtf.ir.drawing.layout import CHARACTER_WIDTH, FONT_SIZE, SMALL_FONT_SIZE

SVG = "{http://www.w3.org/2000/svg}"
LAYOUTS = [
    layered_layout,
    pytest.param(dot_layout, marks=pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz isn't installed")),
]


@pytest.fixture(autouse=True)
def no_graphviz(monkeypatch, request):
    """Drawings are the same on every machine, unless a test requests dot's layout."""
    if "layout" not in request.fixturenames:
        monkeypatch.setattr("tvtf.ir.drawing.graphviz.shutil.which", lambda _: None)


def draw(program, **options):
    function, arguments = program()
    return function.draw(*arguments, **options)


def described(drawing):
    return [(node.kind, node.title) for node in drawing.graph.nodes]


def edges(drawing):
    titles = [node.title for node in drawing.graph.nodes]
    return [(titles[edge.tail], titles[edge.head]) for edge in drawing.graph.edges]


def many_boxes(count, seed=0):
    """A graph of as many boxes, each of which takes values from some of the ten before."""
    draws = random.Random(seed)
    nodes = [Node("kernel", f"k{i}" * draws.randint(1, 5), ["f32[2,2]"] * draws.randint(0, 4)) for i in range(count)]
    pairs = {(draws.randint(max(0, i - 10), i - 1), i) for i in range(1, count) for _ in range(2)}
    return Graph("many", nodes, [Edge(a, b, "x: f32[2,2]") for a, b in sorted(pairs)])


def test_a_box_for_each_kernel_input_and_result():
    drawing = draw(programs.mlp_step)
    assert described(drawing) == [
        ("input", "x"),
        ("input", "y"),
        ("variable", "w1"),
        ("variable", "head"),
        ("fused", "fused_matmul_relu"),
        ("fused", "fused_matmul_1_subtract"),
        ("kernel", "abs"),
        ("kernel", "reduce_mean"),
        ("fused", "fused_sign_multiply"),
        ("fused", "fused_matmul_2_relu_grad"),
        ("fused", "matmul_3_update"),
        ("fused", "matmul_4_update"),
        ("variable", "w1"),
        ("variable", "head"),
        ("result", "reduce_mean"),
    ]
    assert {("x", "fused_matmul_relu"), ("abs", "reduce_mean"), ("matmul_4_update", "w1")} <= set(edges(drawing))


def test_a_fused_kernel_says_its_ops_its_type_and_the_users_lines():
    (fused,) = (n for n in draw(programs.mlp_step).graph.nodes if n.title == "fused_matmul_relu")
    ops, ty, line = fused.lines
    assert (ops, ty) == ("matmul + relu", "f32[256,32]") and line.startswith("programs.py:")


def test_branches_and_loops_are_boxes_with_their_contents():
    (choice,) = (n for n in draw(programs.branches).graph.nodes if n.kind == "control")
    assert choice.lines[:2] == ["then: multiply", "else: softmax"]
    (loop,) = (n for n in draw(programs.loop).graph.nodes if n.kind == "control")
    assert loop.lines[:2] == ["while_cond: greater", "while_body: matmul subtract"]


def test_dict_results_have_their_keys():
    assert [t for k, t in described(draw(programs.dict_outputs)) if k == "result"] == [
        *("mean", "parts[0]", "parts[1]", "parts[2]")
    ]


def test_profiled_kernels_have_their_times_in_colour():
    function, arguments = programs.loop()
    drawing = function.draw(tf.ones([3, 3]), tf.constant(4), profile=True)
    (loop,) = (n for n in drawing.graph.nodes if n.kind == "control")
    assert loop.seconds > 0
    assert "us" in drawing.svg and "#f06e50" in drawing.svg
    profile = function.profile(tf.ones([3, 3]), tf.constant(4))
    again = function.draw(*arguments, profile=profile)
    assert {n.title for n in again.graph.nodes if n.seconds} <= {"while_loop", "identity"}


def test_an_earlier_phase_is_drawn_as_ops():
    assert ("kernel", "matmul") in described(draw(programs.mlp_step, after="simplify"))


@pytest.mark.parametrize("phase", ["native-loops", "donate", "align"])
def test_a_phase_without_values_is_rejected(phase):
    with pytest.raises(ValueError, match=f"^after '{phase}' values are places in memory: draw after 'in-place'"):
        draw(programs.double, after=phase)


def test_an_unknown_phase_is_rejected():
    with pytest.raises(ValueError, match="^there is no phase 'paint'; the phases are"):
        draw(programs.double, after="paint")


def test_it_is_saved_and_shown(tmp_path):
    drawing = draw(programs.double)
    drawing.save(tmp_path / "double.svg")
    assert (tmp_path / "double.svg").read_text() == drawing._repr_svg_() == drawing.svg
    assert repr(drawing) == "<Drawing of <lambda>: 3 boxes; .save(path) writes it as SVG>"


def test_names_are_escaped():
    v = tf.Variable(1.0, name="<b>&v")
    drawing = tf.function(lambda x: x * v).draw(tf.TensorSpec([2]))
    texts = [text.text for text in ElementTree.fromstring(drawing.svg).iter(f"{SVG}text")]
    assert {"<lambda>", "<b>&v"} <= set(texts)


def test_a_concrete_function_is_drawn_too():
    function, arguments = programs.mlp_step()
    assert function.get_concrete_function(*arguments).draw().svg == function.draw(*arguments).svg


def test_the_same_program_gives_the_same_drawing():
    assert draw(programs.mlp_step).svg == draw(programs.mlp_step).svg


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_nothing_overlaps_or_is_clipped(layout, program):
    graph = draw(program).graph
    check(Drawing(graph, layout(graph)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_overlaps_in_larger_graphs(layout, seed):
    graph = many_boxes(60, seed)
    check(Drawing(graph, layout(graph)))


def check(drawing):
    boxes, root = drawing.layout.boxes, ElementTree.fromstring(drawing.svg)
    for a, b in itertools.combinations(boxes, 2):
        separate = abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
        assert separate, (a, b)
    for box, node in zip(boxes, drawing.graph.nodes):
        assert box.x - box.width / 2 >= -0.1 and box.x + box.width / 2 <= drawing.layout.width + 0.1
        assert box.y - box.height / 2 >= -0.1 and box.y + box.height / 2 <= drawing.layout.height + 0.1
        assert len(node.title) * FONT_SIZE * CHARACTER_WIDTH <= box.width
        assert all(len(line) * SMALL_FONT_SIZE * CHARACTER_WIDTH <= box.width for line in node.lines)
    for edge, points in zip(drawing.graph.edges, drawing.layout.curves):
        assert len(points) % 3 == 1
        assert touches(boxes[edge.tail], points[0]) and touches(boxes[edge.head], points[-1]), edge
    assert float(root.get("width")) >= drawing.layout.width


def touches(box, point, slack=3.0):
    inside = abs(point[0] - box.x) <= box.width / 2 + slack and abs(point[1] - box.y) <= box.height / 2 + slack
    return inside and (
        abs(abs(point[0] - box.x) - box.width / 2) <= slack or abs(abs(point[1] - box.y) - box.height / 2) <= slack
    )


def test_boxes_lie_below_those_that_they_take_values_from():
    drawing = draw(programs.mlp_step)
    boxes = drawing.layout.boxes
    assert all(boxes[e.tail].y < boxes[e.head].y for e in drawing.graph.edges)


def test_four_hundred_boxes_are_laid_out_soon():
    graph = many_boxes(400)
    started = time.perf_counter()
    layered_layout(graph)
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("failure", [OSError("no such program"), ValueError("no number")])
def test_without_a_working_dot_the_own_layout_is_taken(monkeypatch, failure):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr("tvtf.ir.drawing.graphviz.shutil.which", lambda _: "/usr/bin/dot")
    monkeypatch.setattr("tvtf.ir.drawing.graphviz.subprocess.run", fail)
    assert draw(programs.double).svg.startswith("<svg")
