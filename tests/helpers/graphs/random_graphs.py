"""Random graphs of operations, for properties of passes, the IR's text and lowering."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value, Variable
from nnefc.ops.tools.build import build, constant
from nnefc.support.errors import NnefError
from tests.helpers.graphs.random_bodies import random_if, random_scan, random_while

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

UNARY = ("copy", "neg", "abs", "relu", "sqr", "sin", "cos", "tanh", "sigmoid", "atan")
BINARY = ("add", "sub", "mul", "min", "max")
WILD = ("exp", "rcp", "div", "pow", "sqrt", "log")
STEPPED = ("floor", "ceil", "round", "sign")
COMPARISONS = ("lt", "gt", "le", "ge", "eq", "ne")
COMPOUNDS = ("leaky_relu", "clamp", "elu", "prelu", "silu", "softabs", "mean_reduce", "add_n")
NUMBERS = (0.0, -0.0, 1.0, 2.0, -1.0, 0.5, 3.0)


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    scalar: DType = DType.FLOAT64,
    smooth: bool = False,
    max_ops: int = 20,
    loops: bool = False,
) -> Graph:
    """`random_graph` with hypothesis choosing the seed and the number of operations."""
    size = draw(st.integers(min(5, max_ops), max_ops))
    seed = draw(st.integers(0, 2**32 - 1))
    return random_graph(seed, size, scalar=scalar, smooth=smooth, loops=loops)


def random_graph(
    seed: int,
    size: int,
    *,
    scalar: DType = DType.FLOAT64,
    smooth: bool = False,
    batch: int | None = None,
    loops: bool = False,
) -> Graph:
    """A valid graph of about `size` operations with inputs, variables with data, and outputs.

    `scalar`: the type of all scalar values.  `smooth`: omit operations that amplify small
    differences.  `batch`: extent of the first input along dimension 0.  `loops`: add nested
    loops and branches.
    """
    generator = _Generator(random.Random(seed), scalar, smooth, loops)
    if batch is not None:
        generator.start_batch(batch)
    return generator.make(size)


def sample_data(name: str, type_: TensorType) -> Array:
    """Data for an input or variable, by `name`: multiples of 1/8 from -2 to 2, with both zeros."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if type_.dtype is DType.BOOL:
        return rng.integers(0, 2, type_.dims).astype(bool)
    items = rng.integers(-16, 17, type_.dims) / 8 * rng.choice([-1.0, 1.0], type_.dims)
    return items.astype(type_.dtype.numpy)


def sample_inputs(graph: Graph) -> dict[str, Array]:
    """Data for every input of a graph."""
    return {v.name: sample_data(v.name, v.type) for v in graph.inputs}


def fill_variables(graph: Graph) -> None:
    """Add data to variables without data."""
    for key, variable in graph.variables.items():
        if variable.data is None:
            variable.data = sample_data(key, variable.type)


class _Generator:
    def __init__(
        self, rng: random.Random, scalar: DType, smooth: bool, loops: bool = False
    ) -> None:
        self.rng = rng
        self.scalar = scalar
        self.smooth = smooth
        self.loops = loops
        self.is_body = False
        self.graph = Graph("g")
        self.values: list[Value] = []
        self.base: Shape = tuple(rng.choice((1, 2, 3, 3)) for _ in range(rng.randint(0, 4)))
        self.name = ""

    def start_batch(self, batch: int) -> None:
        """Give most tensors the same extent along dimension 0."""
        self.base = (batch, *self.base[1:])
        self.values.append(self.graph.add_input(TensorType(self.scalar, self.base), "batch"))

    def make(self, size: int) -> Graph:
        rng = self.rng
        for i in range(rng.randint(1, 3)):
            self.values.append(self.graph.add_input(TensorType(self.scalar, self.shape()), f"x{i}"))
        kinds = ["unary", "binary", "constant", "literal", "variable", "reshape", "transpose"]
        kinds += ["join", "slice", "pad", "tile", "reduce", "compound", "select", "softmax"]
        kinds += ["matmul", "split", "update", "singular", "copies", "again", "matmul"]
        if not self.smooth:
            kinds += ["wild", "comparison", "logic", "stepped"]
        # with few kinds, operations of two kinds meet more often
        kinds = [*rng.sample(kinds, rng.randint(2, 6)), "unary", "binary"]
        if self.loops:
            kinds += ["scan", "unbounded", "branches", "branches"]
        self.fill(kinds, size)
        for i in range(rng.randint(1, 3)):
            recent = self.values[-5:] if i else self.values[-1:]
            self.graph.add_output(rng.choice(recent), f"y{i}")
        return self.graph

    def fill(self, kinds: list[str], size: int) -> None:
        """Add up to `size` operations."""
        for i in range(size):
            self.name = self.rng.choice(("", f"t{i}"))
            try:
                self.values += getattr(self, self.rng.choice(kinds))()
            except NnefError:  # operands that do not go together
                continue

    def shape(self) -> Shape:
        """A shape that broadcasts to `base`."""
        rank = self.rng.choice((len(self.base), len(self.base), self.rng.randint(0, 4)))
        return tuple(self.rng.choice((e, e, e, 1)) for e in self.base[:rank])

    def pick(self, *, logical: bool = False, beside: Value | None = None) -> Value:
        """A random value that broadcasts with `beside`."""
        fitting = [v for v in self.values if (v.type.dtype is DType.BOOL) == logical]
        if beside is not None:
            fitting = [v for v in fitting if _broadcasts(v.type.dims, beside.type.dims)]
        if not fitting and not logical:
            return constant(self.graph, self.rng.choice(NUMBERS), self.scalar)
        if not fitting:
            x = self.pick(beside=beside)
            return build(self.graph, "lt", [x, self.pick(beside=x)]).output
        return self.rng.choice(fitting[-6:] if self.rng.random() < 0.7 else fitting)

    def pair(self, *, logical: bool = False) -> tuple[Value, Value]:
        x = self.pick(logical=logical)
        pair = [x, self.pick(logical=logical, beside=x)]
        self.rng.shuffle(pair)
        return pair[0], pair[1]

    def op(
        self, name: str, *operands: Value, dtype: DType | None = None, **attributes: Any
    ) -> list[Value]:
        names = [self.name] if self.name else []
        return list(build(self.graph, name, operands, attributes, dtype=dtype, names=names).outputs)

    def axes(self, x: Value) -> Shape:
        return tuple(d for d in range(x.type.rank) if self.rng.random() < 0.5)

    def axis(self, x: Value) -> int:
        return self.rng.randint(0, max(0, x.type.rank - 1))

    # -- kinds

    def unary(self) -> list[Value]:
        return self.op(self.rng.choice(UNARY), self.pick())

    def binary(self) -> list[Value]:
        return self.op(self.rng.choice(BINARY), *self.pair())

    def wild(self) -> list[Value]:
        name = self.rng.choice(WILD)
        return self.op(name, *(self.pair() if name in ("div", "pow") else [self.pick()]))

    def stepped(self) -> list[Value]:
        return self.op(self.rng.choice(STEPPED), self.pick())

    def comparison(self) -> list[Value]:
        return self.op(self.rng.choice(COMPARISONS), *self.pair())

    def logic(self) -> list[Value]:
        if self.rng.random() < 0.3:
            return self.op("not", self.pick(logical=True))
        x, y = self.pair(logical=True)
        if self.rng.random() < 0.3:
            y = constant(self.graph, self.rng.random() < 0.5, DType.BOOL)
        return self.op(self.rng.choice(("and", "or")), x, y)

    def select(self) -> list[Value]:
        if self.smooth or self.rng.random() < 0.5:
            condition = constant(self.graph, self.rng.random() < 0.5, DType.BOOL)
        else:
            condition = self.pick(logical=True)
        x = self.pick(beside=condition)
        return self.op("select", condition, x, self.pick(beside=x))

    def constant(self) -> list[Value]:
        shape = self.shape()
        count = self.rng.choice((1, int(np.prod(shape))))
        items = tuple(self.rng.choice(NUMBERS) for _ in range(count))
        return self.op("constant", dtype=self.scalar, shape=shape, value=items)

    def literal(self) -> list[Value]:
        name = self.rng.choice(("add", "sub", "mul", "div", "pow"))
        number = self.rng.choice((1.0, 2.0)) if self.smooth else self.rng.choice(NUMBERS)
        pair = [self.pick(), constant(self.graph, number, self.scalar)]
        if name in ("add", "mul"):
            self.rng.shuffle(pair)
        return self.op(name, *pair)

    def variable(self) -> list[Value]:
        variables = self.graph.variables
        if variables and self.rng.random() < 0.5:
            variable = self.rng.choice(list(variables.values()))
        else:
            label = f"V/{len(variables)}"
            type_ = TensorType(self.scalar, self.shape())
            variable = Variable(label, type_, sample_data(label, type_))
            variables[label.lower()] = variable
        return self.op(
            "variable", dtype=self.scalar, shape=variable.type.dims, label=variable.label
        )

    def update(self) -> list[Value]:
        """Update a variable that is not updated yet, with a value of its shape."""
        updated = {
            op.inputs[0].op.attributes["label"]
            for op in self.graph.ops
            if op.name == "update" and op.inputs[0].op is not None
        }
        free = [v for v in self.values if v.op is not None and v.op.name == "variable"]
        free = [v for v in free if v.op is not None and v.op.attributes["label"] not in updated]
        pairs = [(v, x) for v in free for x in self.values if x.type == v.type]
        return self.op("update", *self.rng.choice(pairs)) if pairs else self.variable()

    def reshape(self) -> list[Value]:
        x = self.pick()
        dims = list(x.type.dims)
        self.rng.shuffle(dims)
        return self.op("reshape", x, shape=tuple(dims))

    def singular(self) -> list[Value]:
        x = self.pick()
        if self.rng.random() < 0.5:
            return self.op("unsqueeze", x, axes=(self.rng.randint(0, x.type.rank),))
        return self.op("squeeze", x, axes=tuple(d for d, e in enumerate(x.type.dims) if e == 1))

    def transpose(self) -> list[Value]:
        x = self.pick()
        axes = list(range(self.rng.randint(0, x.type.rank)))
        self.rng.shuffle(axes)
        return self.op("transpose", x, axes=tuple(axes))

    def join(self) -> list[Value]:
        x = self.pick()
        parts = [x, *(self.pick() for _ in range(self.rng.randint(0, 2)))]
        return self.op(self.rng.choice(("concat", "stack")), *parts, axis=self.axis(x))

    def split(self) -> list[Value]:
        x = self.pick()
        axis = self.axis(x)
        if self.rng.random() < 0.5:
            return self.op("unstack", x, axis=axis)
        return self.op("split", x, axis=axis, ratios=(1,) * (x.type.dims or (1,))[axis])

    def copies(self) -> list[Value]:
        return self.op("copy_n", self.pick(), times=self.rng.randint(1, 3))

    def slice(self) -> list[Value]:
        x = self.pick()
        axis = self.axis(x)
        begin = self.rng.choice((0, 0, 1))
        stride = self.rng.choice(((), (), (1,), (-1,)))
        if stride == (-1,):
            return self.op("slice", x, axes=(axis,), begin=(-1,), end=(-100,), stride=stride)
        return self.op("slice", x, axes=(axis,), begin=(begin,), end=(0,), stride=stride)

    def pad(self) -> list[Value]:
        x = self.pick()
        amounts = self.rng.choice(((0,), (0, 0, 1), (0, 1, -1)))
        padding = tuple(
            (self.rng.choice(amounts), self.rng.choice(amounts)) for _ in range(x.type.rank)
        )
        return self.op("pad", x, padding=padding, border=self.rng.choice(("constant", "replicate")))

    def tile(self) -> list[Value]:
        x = self.pick()
        return self.op("tile", x, repeats=tuple(self.rng.choice((1, 1, 2)) for _ in x.type.dims))

    def reduce(self) -> list[Value]:
        x = self.pick()
        return self.op(
            self.rng.choice(("sum_reduce", "max_reduce", "min_reduce")), x, axes=self.axes(x)
        )

    def softmax(self) -> list[Value]:
        x = self.pick()
        return self.op("softmax", x, axes=self.axes(x))

    def matmul(self) -> list[Value]:
        """A product, often followed by element-wise operations."""
        matrices = [v for v in self.values if v.type.dtype is self.scalar and v.type.rank >= 2]
        if not matrices:
            return self.unary()
        a, b = self.rng.choice(matrices), self.rng.choice(matrices)
        flags: dict[str, Any] = {
            "transposeA": self.rng.random() < 0.5,
            "transposeB": self.rng.random() < 0.5,
        }
        product = self.op("matmul", a, b, **flags)
        if self.rng.random() < 0.3:
            return product
        self.values += self.rng.choice(([], product))
        self.name = ""  # the product has it
        if self.rng.random() < 0.3:
            return self.op(self.rng.choice(UNARY), *product)
        return self.op(self.rng.choice(BINARY), *product, self.pick(beside=product[0]))

    def scan(self) -> list[Value]:
        """A loop over slices of some values, with others as states or invariants."""
        return random_scan(self)

    def unbounded(self) -> list[Value]:
        """A loop that its condition alone ends."""
        return random_while(self)

    def branches(self) -> list[Value]:
        """An `if` with some values as operands."""
        return random_if(self)

    def inner(self) -> _Generator:
        """A generator for a body; the body has the variables of the graph."""
        deeper = self.loops and self.rng.random() < 0.3
        inner = _Generator(self.rng, self.scalar, self.smooth, deeper)
        inner.base, inner.graph.variables = self.base, self.graph.variables
        inner.is_body = True
        return inner

    def again(self) -> list[Value]:
        """A copy of an operation of the graph, perhaps with exchanged operands."""
        ops = [v.op for v in self.values if v.op is not None]
        ops = [op for op in ops if op.name not in ("update", "scan", "if")]
        if not ops:
            return self.unary()
        op = self.rng.choice(ops)
        operands = list(op.inputs)
        if len(operands) == 2 and self.rng.random() < 0.5:
            operands.reverse()
        dtype = op.outputs[0].type.dtype if op.name in ("constant", "variable") else None
        return self.op(op.name, *operands, dtype=dtype, **op.attributes)

    def compound(self) -> list[Value]:
        name = self.rng.choice(COMPOUNDS)
        x = self.pick()
        match name:
            case "clamp":
                return self.op(name, x, self.pick(beside=x), self.pick(beside=x))
            case "prelu":
                return self.op(name, x, self.pick(beside=x))
            case "add_n":
                return self.op(name, x, x, self.pick(beside=x))
            case "leaky_relu":
                return self.op(name, x, alpha=0.25)
            case "softabs":
                return self.op(name, x, epsilon=0.5)
            case "mean_reduce":
                return self.op(name, x, axes=self.axes(x))
            case _:
                return self.op(name, x)


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(a, b))
