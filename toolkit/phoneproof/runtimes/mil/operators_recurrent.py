"""Recurrent operators of MIL; parameters and defaults as MIL names them.

x: [sequence, batch, in]; states: [batch, hidden]. Inside one operator everything is float32.
Left out: an lstm with clip, of which MIL does not say whether it limits the gate or the cell.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.mil.operators_elementwise import relu, sigmoid, sigmoid_hard
from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def _identity(x: Array) -> Array:
    return x


def _hard(x: Array) -> Array:
    return sigmoid_hard(x, np.float32(0.2), np.float32(0.5))


_ACTIVATIONS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "hard_sigmoid": _hard,
    "sigmoid_hard": _hard,
    "linear": _identity,
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}


def _activation(name: str) -> Callable[[Array], Array]:
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not interpreted")
    return _ACTIVATIONS[name.lower()]


def _sequence(states: list[Array], reverse: bool, output_sequence: Any) -> Array:
    if not bool(output_sequence):
        return states[-1][np.newaxis]
    return np.stack(states[::-1] if reverse else states)


def rnn(
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    direction: str = "forward",
    output_sequence: Any = False,
    activation: str = "tanh",
) -> tuple[Array, Array]:
    """h = activation(W_ih x + W_hh h + b)."""
    function, reverse = _activation(activation), direction == "reverse"
    inputs = x @ weight_ih.T + (0 if bias is None else bias)
    h, states = initial_h, []
    for step in inputs[::-1] if reverse else inputs:
        h = function(step + h @ weight_hh.T)
        states.append(h)
    return _sequence(states, reverse, output_sequence), h


def gru(
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    direction: str = "forward",
    output_sequence: Any = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: Any = False,
    input_bias: Array | None = None,
) -> tuple[Array, Array]:
    """Gates in the order reset, output, update.

    o = activation(W_o x + R_o (r * h) + b); with reset_after o = activation(W_o x + b_in + r * (R_o h + b)),
    which is torch's.
    """
    gate, function = _activation(recurrent_activation), _activation(activation)
    reverse = direction == "reverse"
    hidden = initial_h.shape[1]
    zeros = np.zeros(3 * hidden, np.float32)
    b, b_in = zeros if bias is None else bias, zeros if input_bias is None else input_bias
    rr, ro, rz = np.split(weight_hh, 3)
    br, bo, bz = np.split(b, 3)
    inputs = x @ weight_ih.T + b_in
    h, states = initial_h, []
    for step in inputs[::-1] if reverse else inputs:
        xr, xo, xz = np.split(step, 3, axis=1)
        r, z = gate(xr + h @ rr.T + br), gate(xz + h @ rz.T + bz)
        candidate = r * (h @ ro.T + bo) if bool(reset_after) else (r * h) @ ro.T + bo
        h = (1 - z) * function(xo + candidate) + z * h
        states.append(h)
    return _sequence(states, reverse, output_sequence), h


def _lstm_one_way(
    x: Array,
    h: Array,
    c: Array,
    weights: tuple[Array, Array, Array | None, Array | None],
    activations: tuple[str, str, str],
) -> tuple[list[Array], Array, Array]:
    """Gates in the order input, forget, output, cell; peephole weights in the order input, forget, output."""
    weight_ih, weight_hh, bias, peephole = weights
    gate, cell, out = (_activation(name) for name in activations)
    pi, pf, po = (0, 0, 0) if peephole is None else np.split(peephole, 3)
    states = []
    for step in x @ weight_ih.T + (0 if bias is None else bias):
        i, f, o, z = np.split(step + h @ weight_hh.T, 4, axis=1)
        c = gate(f + pf * c) * c + gate(i + pi * c) * cell(z)
        h = gate(o + po * c) * out(c)
        states.append(h)
    return states, h, c


def lstm(
    x: Array,
    initial_h: Array,
    initial_c: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    peephole: Array | None = None,
    weight_ih_back: Array | None = None,
    weight_hh_back: Array | None = None,
    bias_back: Array | None = None,
    peephole_back: Array | None = None,
    direction: str = "forward",
    output_sequence: Any = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
) -> tuple[Array, Array, Array]:
    """Long short-term memory. Both directions stand after one another in the last axis of every result.

    Without output_sequence the first result has, of each direction, the state after its last step.
    """
    activations = (recurrent_activation, cell_activation, activation)
    weights = (weight_ih, weight_hh, bias, peephole)
    if direction != "bidirectional":
        reverse = direction == "reverse"
        states, h, c = _lstm_one_way(x[::-1] if reverse else x, initial_h, initial_c, weights, activations)
        return _sequence(states, reverse, output_sequence), h, c
    if weight_ih_back is None or weight_hh_back is None:
        raise ValueError("a bidirectional lstm has no weights for its way back")
    (h_there, h_back), (c_there, c_back) = np.split(initial_h, 2, axis=1), np.split(initial_c, 2, axis=1)
    there, h, c = _lstm_one_way(x, h_there, c_there, weights, activations)
    weights_back = (weight_ih_back, weight_hh_back, bias_back, peephole_back)
    back, hb, cb = _lstm_one_way(x[::-1], h_back, c_back, weights_back, activations)
    sequences = (_sequence(there, False, output_sequence), _sequence(back, True, output_sequence))
    return np.concatenate(sequences, -1), np.concatenate([h, hb], -1), np.concatenate([c, cb], -1)


OPERATORS: Final[Mapping[str, Operator]] = {"gru": gru, "lstm": lstm, "rnn": rnn}
