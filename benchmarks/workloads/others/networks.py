"""Networks of many kinds, each a loss over a framework's operations."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.others.sizes import Images, Sequences, Vectors

CLASSES = 10


def classified(ops: Any, x: Any, y: Any) -> Any:
    return ops.cross_entropy(ops.dense(x, CLASSES), y)


def unet(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Ronneberger et al. 2015, with batch norm."""
    skipped = []
    for width in size.widths[:-1]:
        x = _convolved(ops, _convolved(ops, x, width), width)
        skipped.append(x)
        x = ops.pool(x)
    x = _convolved(ops, x, size.widths[-1])
    for width, other in zip(reversed(size.widths[:-1]), reversed(skipped)):
        x = _convolved(ops, ops.join([ops.upconv(x, width), other]), width)
    x = ops.conv(x, 1, 1)
    return ops.average(ops.softplus(x) - x * y)


def _convolved(ops: Any, x: Any, width: int, **how: Any) -> Any:
    return ops.relu(ops.batch_norm(ops.conv(x, width, **how)))


def resnext(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Grouped convolutions (Xie et al. 2017) with squeeze and excitation (Hu et al. 2018)."""
    x = _convolved(ops, x, size.widths[0])
    for number, width in enumerate(size.widths):
        stride = 2 if number else 1
        z = _convolved(ops, x, width, window=1)
        z = _convolved(ops, z, width, stride=stride, groups=size.groups)
        z = ops.batch_norm(ops.conv(z, width, 1))
        z = z * _excitation(ops, z, width)
        x = ops.relu(z + ops.batch_norm(ops.conv(x, width, 1, stride)))
    return classified(ops, ops.mean(x), y)


def _excitation(ops: Any, z: Any, width: int) -> Any:
    squeezed = ops.relu(ops.conv(ops.mean(z, True), width // 8, 1))
    return ops.sigmoid(ops.conv(squeezed, width, 1))


def densenet(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Huang et al. 2017: every layer reads all before it."""
    x = ops.conv(x, size.widths[0])
    for number, depth in enumerate(size.widths[1:]):
        x = ops.pool(x) if number else x
        for _ in range(depth):
            x = ops.join([x, ops.conv(ops.relu(ops.batch_norm(x)), size.groups)])
    return classified(ops, ops.mean(x), y)


def convnext(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Liu et al. 2022: wide depthwise windows, layer norm, gelu."""
    for width in size.widths:
        x = ops.layer_norm(ops.conv(x, width, 2, 2))
        for _ in range(2):
            z = ops.layer_norm(ops.conv(x, width, 7, groups=width))
            x = x + ops.conv(ops.gelu(ops.conv(z, 4 * width, 1)), width, 1)
    return classified(ops, ops.mean(x), y)


def style(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Johnson et al. 2016 with instance norm: down, residual blocks, up by repetition."""
    first, inner = size.widths
    x = ops.relu(ops.instance_norm(ops.conv(x, first, 9)))
    x = ops.relu(ops.instance_norm(ops.conv(x, inner, 3, 2)))
    for _ in range(2):
        z = ops.relu(ops.instance_norm(ops.conv(x, inner)))
        x = x + ops.instance_norm(ops.conv(z, inner))
    x = ops.relu(ops.instance_norm(ops.conv(ops.upsampled(x), first)))
    difference = ops.tanh(ops.conv(x, 3, 9)) - y
    return ops.average(difference * difference)


def dilated(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Wider and wider windows side by side (Chen et al. 2017)."""
    first, inner = size.widths
    x = _convolved(ops, _convolved(ops, x, first, stride=2), inner, stride=2)
    x = ops.join([_convolved(ops, x, inner, dilation=d) for d in (1, 2, 4, 8)])
    return classified(ops, ops.mean(_convolved(ops, x, inner, window=1)), y)


def volumes(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Tran et al. 2015: convolutions over three dims."""
    for width in size.widths:
        x = ops.pool(ops.relu(ops.conv(x, width)))
    return classified(ops, ops.mean(x), y)


def wavenet(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Van den Oord et al. 2016: gated causal convolutions of a signal."""
    (width,) = size.widths
    x = ops.conv(x, width, 1)
    for dilation in (1, 2, 4, 8, 16, 32):
        a, b = ops.split(ops.causal(x, 2 * width, 2, dilation), 2)
        x = x + ops.conv(ops.tanh(a) * ops.sigmoid(b), width, 1)
    return classified(ops, ops.mean(x), y)


def vision_transformer(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Dosovitskiy et al. 2021."""
    width, patch = size.widths
    x = ops.conv(x, width, patch, patch)
    x = ops.tokens(x)
    x = x + ops.weight(1, int(x.shape[1]), width)
    for _ in range(3):
        x = x + _attention(ops, ops.layer_norm(x), width, size.groups)
        x = x + ops.dense(ops.gelu(ops.dense(ops.layer_norm(x), 4 * width)), width)
    return classified(ops, ops.mean(ops.layer_norm(x)), y)


def _attention(ops: Any, x: Any, width: int, heads: int) -> Any:
    """Multi-head self-attention, with the projections of its inputs and results."""
    batch, time, each = int(x.shape[0]), int(x.shape[1]), width // heads
    mixed = ops.reshape(ops.dense(x, 3 * width), (batch, time, 3, heads, each))
    heads_of = ops.transpose(mixed, (2, 0, 3, 1, 4))
    q, k, v = heads_of[0], heads_of[1], heads_of[2]
    scores = ops.softmax(q @ ops.transpose(k, (0, 1, 3, 2)) * each**-0.5)
    return ops.dense(ops.reshape(ops.transpose(scores @ v, (0, 2, 1, 3)), (batch, time, width)), width)


def gru(ops: Any, size: Sequences, ids: Any, y: Any) -> Any:
    """Cho et al. 2014, unrolled."""
    x = ops.gather(ops.weight(size.symbols, size.width), ids)
    h = ops.zeros(size.batch, size.hidden)
    gates, candidate = ops.weight(size.width + size.hidden, 2 * size.hidden), ops.weight(size.hidden, size.hidden)
    inward, bias = ops.weight(size.width, size.hidden), ops.weight(2 * size.hidden)
    for t in range(size.steps):
        r, z = ops.split(ops.sigmoid(ops.join([x[:, t], h]) @ gates + bias), 2)
        h = z * h + (1 - z) * ops.tanh(x[:, t] @ inward + r * (h @ candidate))
    return classified(ops, h, y)


def both_ways(ops: Any, size: Sequences, ids: Any, y: Any) -> Any:
    """Long short-term memories from both ends (Graves and Schmidhuber 2005), unrolled."""
    x = ops.gather(ops.weight(size.symbols, size.width), ids)
    ends = [_lstm(ops, size, x, order) for order in (range(size.steps), reversed(range(size.steps)))]
    return classified(ops, ops.join(ends), y)


def _lstm(ops: Any, size: Sequences, x: Any, order: Any) -> Any:
    """A long short-term memory over the time steps in ``order``; returns the last hidden state."""
    h, c = ops.zeros(size.batch, size.hidden), ops.zeros(size.batch, size.hidden)
    w, b = ops.weight(size.width + size.hidden, 4 * size.hidden), ops.weight(4 * size.hidden)
    for t in order:
        i, f, g, o = ops.split(ops.join([x[:, t], h]) @ w + b, 4)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
    return h


def embedded(ops: Any, size: Sequences, ids: Any, y: Any) -> Any:
    """A bag of words (Joulin et al. 2017): a large table, few of whose rows a step touches."""
    x = ops.mean(ops.gather(ops.weight(size.symbols, size.width), ids))
    return classified(ops, ops.relu(ops.dense(x, size.hidden)), y)


def autoencoder(ops: Any, size: Vectors, x: Any, noise: Any) -> Any:
    """Kingma and Welling 2014."""
    h = ops.relu(ops.dense(x, size.hidden))
    mean, spread = ops.dense(h, size.latent), ops.dense(h, size.latent)
    z = mean + ops.exp(spread * 0.5) * noise
    y = ops.dense(ops.relu(ops.dense(z, size.hidden)), size.width)
    divergence = ops.average(spread - mean * mean - ops.exp(spread) + 1.0) * (-0.5 * size.latent)
    return ops.average(ops.softplus(y) - x * y) * float(size.width) + divergence


def adversary(ops: Any, size: Images, x: Any, noise: Any) -> Any:
    """Radford et al. 2016: images from noise by transposed convolutions, and a discriminator."""
    made = noise
    for width in size.widths:
        made = ops.relu(ops.batch_norm(ops.upconv(made, width, 5)))
    made = ops.tanh(ops.conv(made, 3, 5))
    z = ops.join([made, x])
    for width in reversed(size.widths):
        z = ops.conv(z, width, 5, 2)
        z = ops.relu(z) - 0.2 * ops.relu(-z)
    return ops.average(ops.softplus(-ops.dense(ops.mean(z), 1)))
