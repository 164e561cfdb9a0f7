"""A graph network that classifies the members of a karate club from friendships and the labels of two members.

Zachary recorded which of the 34 members of a club met outside of it; then the instructor (0) and the president (33) fell
out, and the club split. The network is trained on the sides of these two only. It passes messages along friendships, so
that a member's row becomes a mean over its friends' rows; as friends mostly take the same side, the labels spread.

Source: Zachary 1977, https://doi.org/10.1086/jar.33.4.3629752 (the club); Kipf and Welling 2017, https://arxiv.org/abs/1609.02907
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture

FRIENDS = {
    0: [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31], 1: [2, 3, 7, 13, 17, 19, 21, 30],
    2: [3, 7, 8, 9, 13, 27, 28, 32], 3: [7, 12, 13], 4: [6, 10], 5: [6, 10, 16], 6: [16], 8: [30, 32, 33], 9: [33],
    13: [33], 14: [32, 33], 15: [32, 33], 18: [32, 33], 19: [33], 20: [32, 33], 22: [32, 33],
    23: [25, 27, 29, 32, 33], 24: [25, 27, 31], 25: [31], 26: [29, 33], 27: [33], 28: [31, 33], 29: [32, 33],
    30: [32, 33], 31: [32, 33], 32: [33],
}  # fmt: skip
"""The edges of the graph: each friendship once, at the smaller of its two members."""
MEMBERS = 34
WITH_INSTRUCTOR = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21]
KNOWN = [0, 33]
HIDDEN = 8
DECAY = 5e-3


def edges() -> tuple[Any, Any]:
    """Returns the senders and receivers of messages, int32: each friendship in both directions, and each member to itself."""
    pairs = [(a, b) for a, friends in FRIENDS.items() for b in friends]
    pairs += [(b, a) for a, b in pairs] + [(a, a) for a in range(MEMBERS)]
    senders, receivers = np.array(pairs, np.int32).T
    return tf.constant(senders), tf.constant(receivers)


class GraphLayer(tf.Module):
    """A layer whose row for a member is the weighted sum of its friends' rows and its own, times a matrix."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, name: str) -> None:
        super().__init__(name=name)
        scale = (6.0 / (inputs + outputs)) ** 0.5
        self.kernel = tf.Variable(rng.uniform(-scale, scale, (inputs, outputs)), dtype=tf.float32, name="kernel")

    def __call__(self, rows: Any, senders: Any, receivers: Any) -> Any:
        """Returns the new rows of all members: the sums over messages, normalized by the members' degrees."""
        ones = tf.ones_like(receivers, tf.float32)
        degrees = tf.math.unsorted_segment_sum(ones, receivers, MEMBERS)
        # Messages are divided by the roots of both ends' degrees, so that sums don't grow with the number of friends.
        weights = tf.math.rsqrt(tf.gather(degrees, senders) * tf.gather(degrees, receivers))
        messages = tf.gather(rows @ self.kernel, senders) * weights[:, None]
        return tf.math.unsorted_segment_sum(messages, receivers, MEMBERS)


class GraphNetwork(tf.Module):
    """Two graph layers, so that messages arrive from friends of friends; the result is the logits of the two sides."""

    def __init__(self, seed: int) -> None:
        super().__init__(name="graph_network")
        rng = np.random.default_rng(seed)
        self.hidden = GraphLayer(rng, MEMBERS, HIDDEN, "hidden")
        self.head = GraphLayer(rng, HIDDEN, 2, "head")
        self.edges = edges()

    def __call__(self) -> Any:
        # Members have no features but their identity, so the first layer's input is the identity matrix.
        return self.head(tf.tanh(self.hidden(tf.eye(MEMBERS), *self.edges)), *self.edges)


def main(folder: Path, steps: int = 200, seed: int = 0) -> dict[str, float]:
    """Trains a graph network on the sides of two members, and draws the predicted sides of all.

    Returns the accuracy, and the first and last loss.
    """
    network, optimizer = GraphNetwork(seed), tf.optimizers.Adam(0.02)
    sides = np.isin(np.arange(MEMBERS), WITH_INSTRUCTOR, invert=True).astype(np.int32)
    labels = tf.gather(sides, KNOWN)

    @tf.function
    def step() -> Any:
        """Trains on the two members with known sides; returns the loss."""
        with tf.GradientTape() as tape:
            logits = tf.gather(network(), KNOWN)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            weights = tf.add_n([tf.nn.l2_loss(kernel) for kernel in network.trainable_variables])
            loss = tf.reduce_mean(losses) + DECAY * weights
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [float(step()) for _ in range(steps)]
    predicted = tf.nn.softmax(network())[:, 1].numpy()
    right = (predicted > 0.5) == (sides == 1)
    draw(folder / "graph_network.png", predicted, right)
    return {"accuracy": float(right.mean()), "first loss": losses[0], "loss": losses[-1]}


def layout() -> np.ndarray:
    """Returns a position in the plane for each member, friends close together: two eigenvectors of the graph's Laplacian."""
    senders, receivers = edges()
    adjacency = tf.scatter_nd(
        tf.stack([senders, receivers], axis=1), tf.ones_like(senders, tf.float32), [MEMBERS, MEMBERS]
    )
    scale = tf.math.rsqrt(tf.reduce_sum(adjacency, axis=1))
    _, vectors = tf.linalg.eigh(scale[:, None] * adjacency * scale[None, :])
    # The eigenvector of the largest eigenvalue has no information: it is constant up to scale.
    return (vectors[:, -3:-1] * scale[:, None]).numpy()[:, ::-1]


def draw(path: Path, predicted: np.ndarray, right: np.ndarray) -> None:
    """Draws the graph of friendships, members in the colour of the predicted side; wrong predictions have a black ring."""
    positions = layout()
    with picture(path, size=(5.5, 3.6)) as axes:
        for member_a, friends in FRIENDS.items():
            for member_b in friends:
                axes.plot(*positions[[member_a, member_b]].T, color="0.85", linewidth=0.6, zorder=0)
        rings = ["none" if is_right else "black" for is_right in right]
        points = axes.scatter(
            *positions.T, c=predicted, cmap="coolwarm", vmin=0, vmax=1, s=60, edgecolors=rings, linewidths=1.5
        )
        for member in KNOWN:
            axes.annotate(f"  {member}", positions[member])
        axes.figure.colorbar(points, label="predicted probability of the president's side (33)")
        axes.set_axis_off()
