"""The JSON of a stored program (`ExportedProgram` of the schema) as a `Program`.

A union is an object with one key: `{"as_tensor": {"name": "conv2d"}}`.  Values of other types
than the schema's raise TypeError, KeyError or ValueError, which `read_schema` reports.

Source: torch/_export/serde/schema.py of PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from nnefc.formats.archives.torch_tensor import READABLE, RULE, SCALAR_TYPES
from nnefc.formats.files import printable
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.torch.input_symbols import numbers_as_values
from nnefc.frontends.torch.json_attributes import attribute
from nnefc.frontends.torch.json_values import (
    bound,
    constant,
    integer,
    json_list,
    json_object,
    scalar,
    text,
    union,
)
from nnefc.frontends.torch.program import (
    Argument,
    Body,
    Graph,
    Input,
    InputKind,
    Node,
    Output,
    OutputKind,
    Program,
    Range,
    Ref,
)
from nnefc.frontends.torch.shape_guards import conditions_of
from nnefc.frontends.torch.symbolic_extents import extent_text
from nnefc.frontends.torch.used_nodes import names_in, used_nodes, without_outputs
from nnefc.support.errors import NnefError, Place

VERSION: Final = 8
"""The major version of the schema that is read, of PyTorch 2.5 and later; 2.4 has 7 or less."""
_OLDEST: Final = 5
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d{1,9})')
_LIBRARY: Final = re.compile(r"[/\\]site-packages[/\\]torch[/\\]|^torch/|^<")
_MUTATIONS: Final = ("buffer_mutation", "parameter_mutation")
"""The kinds of results that are new values of tensors of the module."""
_MOST_DEPTH: Final = 100
"""Depth of bodies within bodies."""


def read_schema(stored: Mapping[str, Any], file: str) -> Program:
    """The program of a stored one; raises NnefError `torch/archive` or `torch/unsupported`."""
    place = Place(file)
    try:
        _check_version(stored, place)
        program = _Reader(file).program(stored)
        _check_names(program)
        return program
    except OperatorError as wrong:
        raise NnefError.of(wrong.rule, wrong.message, place, wrong.hint) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        message = f"the program is damaged: {printable(repr(error))}"
        raise NnefError.of(RULE, message, place) from None


def _check_version(stored: Mapping[str, Any], place: Place) -> None:
    major = integer(stored["schema_version"]["major"])
    if not _OLDEST <= major <= VERSION:
        message = f"the program is of version {major} of the schema, which is not known"
        hint = f"versions {_OLDEST} to {VERSION} are read; save the program with another PyTorch"
        raise NnefError.of("torch/unsupported", message, place, hint)


def _check_names(program: Program) -> None:
    """Raise ValueError for a name that no node before has."""
    given = tuple(each.name for each in program.inputs)
    for names, graph in ((given, program.graph), *((b.inputs, b) for b in program.bodies.values())):
        known = set(names)
        for node in graph.nodes:
            _require_known(names_in(tuple(node.arguments.values())), known)
            known.add(node.name)
        _require_known(names_in(graph.outputs), known)


def _require_known(names: Iterator[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"no node before has the name '{name}'")


class _Reader:
    """Reads the graphs of a program."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._bodies: dict[str, Graph] = {}
        self._constants: dict[str, Argument] = {}
        """The values of inputs that are constants."""
        self._dtypes: dict[str, str] = {}
        """The item types of the tensors of the graph that is read."""

    def program(self, stored: Mapping[str, Any]) -> Program:
        """The whole program."""
        module = json_object(stored["graph_module"])
        main, signature = json_object(module["graph"]), json_object(module["signature"])
        specs = [union(each) for each in json_list(signature["output_specs"])]
        changed = {_changed(*each) for each in specs if each[0] in _MUTATIONS}
        tensors = json_object(main["tensor_values"])
        inputs = [
            each
            for spec in json_list(signature["input_specs"])
            for each in self._inputs(*union(spec), tensors, json_object(main), changed)
        ]
        tokens = [i for i, (kind, _) in enumerate(specs) if kind == "token"]
        graph = without_outputs(self.graph(main, 0), tokens)
        specs = [each for each in specs if each[0] != "token"]
        outputs = [
            self._output(i, *pair, tensors)
            for i, pair in enumerate(zip(specs, graph.outputs, strict=True))
        ]
        ranges = {
            text(name): Range(max(bound(each["min_val"]) or 0, 0), bound(each["max_val"]))
            for name, each in json_object(stored["range_constraints"]).items()
        }
        every = tuple(numbers_as_values(inputs))
        guards = [text(each) for each in json_list(stored.get("guards_code", []))]
        facts = (graph, every, tuple(outputs), self._bodies, ranges)
        conditions = conditions_of(guards, every, ranges)
        return Program("graph", self._file, *facts, conditions=conditions)

    def _inputs(
        self,
        kind: str,
        spec: Any,
        tensors: Mapping[str, Any],
        graph: Mapping[str, Any],
        changed: set[str],
    ) -> Iterator[Input]:
        """The input of a specification; none for a constant, whose value is noted."""
        match kind:
            case "user_input":
                of, value = union(spec["arg"])
                if of == "as_tensor":
                    name = text(value["name"])
                    yield _tensor_input(name, InputKind.USER, name, tensors)
                elif of == "as_sym_int" and "as_name" in value:
                    name = text(value["as_name"])
                    extents = (_extent(graph["sym_int_values"][name]),)
                    yield Input(name, InputKind.NUMBER, name, "int64", extents)
            case "token":  # it orders operators with effects, and has no value
                self._constants[text(spec["arg"]["name"])] = None
            case "constant_input":
                self._constants[text(spec["name"])] = constant(*union(spec["value"]))
            case "parameter" | "buffer" | "tensor_constant":
                label = text(spec[f"{kind}_name"])
                what = InputKind.STATE if label in changed else InputKind.ARRAY
                yield _tensor_input(text(spec["arg"]["name"]), what, label, tensors)
            case _:
                message = f"an input of kind '{printable(kind)}' is no tensor"
                raise OperatorError("torch/unsupported", message)

    def _output(
        self, index: int, spec: tuple[str, Any], value: Argument, tensors: Mapping[str, Any]
    ) -> Output:
        kind, given = spec
        match kind:
            case "user_output":
                if not isinstance(value, Ref):
                    return Output(value, f"output_{index}", OutputKind.CONSTANT)
                return Output(value, value.name, _kind_of(value, tensors))
            case kind if kind in _MUTATIONS:
                return Output(value, _changed(kind, given), OutputKind.STATE)
            case "user_input_mutation":
                what = _kind_of(value, tensors)
                return Output(value, f"{text(given['user_input_name'])}_changed", what)
            case _:
                message = f"a result of kind '{printable(kind)}' is not supported"
                raise OperatorError("torch/unsupported", message)

    def graph(self, stored: Any, depth: int) -> Graph:
        """The nodes of a graph, and its bodies in `bodies`."""
        if depth > _MOST_DEPTH:
            raise ValueError("bodies are nested too deeply")
        before, tensors = self._dtypes, json_object(stored["tensor_values"])
        self._dtypes = {
            name: SCALAR_TYPES.get(each["dtype"], f"code {each['dtype']}")
            for name, each in tensors.items()
        }
        inputs = [self._name_of(each) for each in json_list(stored["inputs"])]
        nodes: list[Node] = []
        for each in json_list(stored["nodes"]):
            nodes += self._nodes(json_object(each), len(nodes), depth)
        outputs = tuple(self._argument(each, depth) for each in json_list(stored["outputs"]))
        self._dtypes = before
        return Graph(tuple(inputs), used_nodes(nodes, outputs), outputs)

    def _name_of(self, argument: Any) -> str:
        """The name of an input of a graph."""
        _, value = union(argument)
        if isinstance(value, dict):
            found: Any = cast("dict[str, Any]", value)
            return text(found.get("name", found.get("as_name", "")))
        return ""

    def _nodes(self, stored: Mapping[str, Any], index: int, depth: int) -> Iterator[Node]:
        """A node; one with several results is followed by nodes that select them."""
        arguments: dict[str, Argument] = {}
        for i, each in enumerate(json_list(stored["inputs"])):
            arguments[text(each["name"]) or str(i)] = self._argument(each["arg"], depth)
        outputs = [union(each) for each in json_list(stored["outputs"])]
        target = _target(text(stored["target"]))
        place, module = _place(stored), _module(stored)
        is_list = len(outputs) == 1 and outputs[0][0] in ("as_tensors", "as_optional_tensors")
        is_single = stored.get("is_hop_single_tensor_return") is not False
        if len(outputs) == 1 and not is_list and is_single:
            name = _result_name(*outputs[0])
            yield Node(name, target, arguments, (self._dtypes.get(name),), place, module)
            return
        names = [_result_name(*each) for each in (_members(outputs[0]) if is_list else outputs)]
        name = text(stored.get("name") or f"node {index}")
        if name in names:
            name = f"node {index}"
        dtypes = tuple(self._dtypes.get(each) for each in names)
        yield Node(name, target, arguments, dtypes, place, module)
        for i, (each, dtype) in enumerate(zip(names, dtypes, strict=True)):
            selected: dict[str, Argument] = {"0": Ref(name), "1": i}
            yield Node(each, "operator.getitem", selected, (dtype,), place, module)

    def _argument(self, stored: Any, depth: int) -> Argument:
        kind, value = union(stored)
        match kind:
            case "as_none":
                return None
            case "as_tensor" | "as_custom_obj":
                return self._named(text(value["name"]))
            case "as_int" | "as_float" | "as_bool" | "as_string":
                return scalar(kind, value)
            case "as_sym_int" | "as_sym_float" | "as_sym_bool" | "as_optional_tensor":
                return self._one_of(value)
            case "as_tensors":
                return tuple(self._named(text(each["name"])) for each in json_list(value))
            case "as_optional_tensors" | "as_sym_ints" | "as_sym_floats" | "as_sym_bools":
                return tuple(self._one_of(each) for each in json_list(value))
            case "as_ints" | "as_floats" | "as_bools" | "as_strings":
                return tuple(scalar(kind[:-1], each) for each in json_list(value))
            case "as_nested_tensors":
                return tuple(
                    tuple(self._named(text(each["name"])) for each in json_list(several))
                    for several in json_list(value)
                )
            case "as_graph":
                body = self.graph(json_object(value["graph"]), depth + 1)
                name = f"{text(value['name'])}_{len(self._bodies)}"
                self._bodies[name] = body
                return Body(name)
            case _:
                return attribute(kind, value)

    def _one_of(self, stored: Any) -> Argument:
        """A name or a value: `{"as_name": "s0"}`, `{"as_int": 3}`."""
        kind, value = union(stored)
        if kind == "as_name":
            return self._named(text(value))
        if kind == "as_none":
            return None
        return self._named(text(value["name"])) if kind == "as_tensor" else scalar(kind, value)

    def _named(self, name: str) -> Argument:
        return self._constants[name] if name in self._constants else Ref(name)


def _changed(kind: str, given: Any) -> str:
    """The name of the tensor of the module that a result is the new value of."""
    return text(given[f"{kind.removesuffix('_mutation')}_name"])


def _kind_of(value: Argument, tensors: Mapping[str, Any]) -> OutputKind:
    """What an output of the main graph is."""
    if not isinstance(value, Ref):
        return OutputKind.CONSTANT
    return OutputKind.TENSOR if value.name in tensors else OutputKind.NUMBER


def _members(output: tuple[str, Any]) -> list[tuple[str, Any]]:
    """The results in a result that is a list of tensors."""
    kind, value = output
    if kind == "as_tensors":
        return [("as_tensor", each) for each in json_list(value)]
    return [union(each) for each in json_list(value)]


def _result_name(kind: str, value: Any) -> str:
    if kind == "as_tensor":
        return text(value["name"])
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return text(value["as_name"])
    return "nothing" if kind == "as_none" else _unknown_result(kind)


def _unknown_result(kind: str) -> str:
    raise OperatorError("torch/unsupported", f"results of kind '{printable(kind)}' of a node")


def _tensor_input(name: str, kind: InputKind, label: str, tensors: Mapping[str, Any]) -> Input:
    meta = tensors[name]
    dtype = SCALAR_TYPES.get(meta["dtype"], f"code {meta['dtype']}")
    device = text(meta["device"]["type"])
    if device not in ("cpu", "meta"):
        message = f"'{printable(label)}' is a tensor on {printable(device)}"
        hint = "move the module and its example inputs to the CPU before the export"
        raise OperatorError("torch/unsupported", message, hint)
    if kind is not InputKind.USER:
        extents = tuple(_extent(each) for each in json_list(meta["sizes"]))
        return Input(name, kind, label, dtype, extents)
    if dtype not in READABLE:
        message = f"the input '{printable(label)}' has items of type {printable(dtype)}"
        raise OperatorError("torch/type", message)
    return Input(
        name, kind, label, dtype, tuple(_extent(each) for each in json_list(meta["sizes"]))
    )


def _extent(stored: Any) -> str:
    """An extent as text: a number, or an expression of symbols."""
    kind, value = union(stored)
    if kind != "as_int":
        return extent_text(text(value["expr_str"]))
    extent = integer(value)
    if not 0 <= extent < 1 << 62:
        raise ValueError(f"an extent of {extent}")
    return str(extent)


def _target(target: str) -> str:
    """The name of an operator as `Program` has it."""
    for prefix in ("torch.ops.", "_"):
        if target.startswith(prefix):
            return target.removeprefix(prefix)
    return target


def _place(stored: Mapping[str, Any]) -> Place | None:
    """The innermost line outside of PyTorch of the stack that called a node."""
    stack = stored["metadata"].get("stack_trace")
    frames = _FRAME.findall(stack) if isinstance(stack, str) else []
    outside = [each for each in frames if not _LIBRARY.search(each[0])]
    return Place(printable(outside[-1][0]), int(outside[-1][1]), 1) if outside else None


def _module(stored: Mapping[str, Any]) -> str:
    """The path of the module that called a node; "" for the root."""
    stack = stored["metadata"].get("nn_module_stack")
    last = stack.rpartition(";")[2].split(",") if isinstance(stack, str) else []
    path = last[1] if len(last) > 2 else ""
    return "" if path.startswith(("_empty_nn_module", "L[")) else printable(path)
