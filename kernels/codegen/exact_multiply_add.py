"""Multiply-adds of float32 that round once, for instruction sets without such an instruction.

`exact` replaces `llvm.fmuladd` in LLVM text.  The product of two float32 is exact in float64.  To
round the sum to float64 and then to float32 gives what `fma` gives, unless the former is half-way
between two float32: its last 29 bits tell, if the result is not subnormal.  Such sums are computed
again and rounded to odd: Knuth's TwoSum gives the error, whose sign tells which neighbour is nearer
to zero, and the odd one of the two is taken if there is an error.
"""

from __future__ import annotations

import re
from typing import Final

ROUNDS_ONCE: Final = "nnefc.rounds.once"
"""A function whose calls become the answer to whether multiply-adds round once."""

_NAME: Final = r'@"?llvm\.fmuladd\.((?:v\d+)?)f32"?(?=\()'
_DECLARED: Final = re.compile(rf"^declare [^\n]*(?:{_NAME}|{ROUNDS_ONCE})[^\n]*$", re.M)
_CALLED: Final = re.compile(_NAME)
_ASKED: Final = re.compile(rf'call i1 @"?{re.escape(ROUNDS_ONCE)}"?\(\)')
_DEFINITION: Final = """
define internal {real} @"nnefc.fma.{lanes}f32"({real} %x, {real} %y, {real} %z) alwaysinline {{
  %wide.x = fpext {real} %x to {wide}
  %wide.y = fpext {real} %y to {wide}
  %wide.z = fpext {real} %z to {wide}
  %product = fmul {wide} %wide.x, %wide.y
  %sum = fadd {wide} %product, %wide.z
  %result = fptrunc {wide} %sum to {real}
  %bits = bitcast {wide} %sum to {word}
  %low = trunc {word} %bits to {half}
  %beyond = and {half} %low, {beyond}
  %is.tie = icmp eq {half} %beyond, {tie}
  %result.bits = bitcast {real} %result to {half}
  %size = and {half} %result.bits, {magnitude}
  %is.small = icmp slt {half} %size, {small}
  %unsure = or {bit} %is.tie, %is.small
  {any}
  br i1 %any, label %rare, label %done, !prof !{{!"branch_weights", i32 1, i32 1000000}}
rare:
  %odd = call preserve_allcc {real} @"nnefc.odd.{lanes}f32"({wide} %product, {wide} %wide.z)
  br label %done
done:
  %rounded = phi {real} [ %result, %0 ], [ %odd, %rare ]
  ret {real} %rounded
}}
define internal preserve_allcc {real} @"nnefc.odd.{lanes}f32"({wide} %p, {wide} %z) noinline cold {{
  %sum = fadd {wide} %p, %z
  %added = fsub {wide} %sum, %p
  %kept = fsub {wide} %sum, %added
  %left = fsub {wide} %p, %kept
  %lost = fsub {wide} %z, %added
  %error = fadd {wide} %left, %lost
  %inexact = fcmp one {wide} %error, zeroinitializer
  %mask = sext {bit} %inexact to {word}
  %bits = bitcast {wide} %sum to {word}
  %error.bits = bitcast {wide} %error to {word}
  %signs = xor {word} %bits, %error.bits
  %opposite = icmp slt {word} %signs, zeroinitializer
  %away = sext {bit} %opposite to {word}
  %step = and {word} %away, %mask
  %last = lshr {word} %mask, {shift}
  %toward.zero = add {word} %bits, %step
  %rounded = or {word} %toward.zero, %last
  %wide.result = bitcast {word} %rounded to {wide}
  %result = fptrunc {wide} %wide.result to {real}
  ret {real} %result
}}
"""


def answered(text: str, *, once: bool) -> str:
    """LLVM text whose calls of `ROUNDS_ONCE` are constants."""
    if ROUNDS_ONCE not in text:
        return text
    return _ASKED.sub(f"and i1 true, {str(once).lower()}", _DECLARED.sub(_kept, text))


def exact(text: str) -> str:
    """LLVM text whose multiply-adds of float32 round once."""
    kinds = dict.fromkeys(_CALLED.findall(text))
    if not kinds:
        return text
    text = _CALLED.sub(r'@"nnefc.fma.\1f32"', _DECLARED.sub("", text))
    return text + "".join(map(_definition, kinds))


def _kept(declaration: re.Match[str]) -> str:
    return "" if ROUNDS_ONCE in declaration[0] else declaration[0]


def _definition(lanes: str) -> str:
    """The function for vectors of `lanes`, such as `v4`; empty for numbers."""
    count = lanes.removeprefix("v")
    items = {"real": "float", "wide": "double", "word": "i64", "half": "i32", "bit": "i1"}
    numbers = {
        "beyond": ("i32", (1 << 29) - 1),
        "tie": ("i32", 1 << 28),
        "magnitude": ("i32", (1 << 31) - 1),
        "small": ("i32", (1 << 23) + 1),
        "shift": ("i64", 63),
    }
    if not count:
        constants = {name: str(number) for name, (_, number) in numbers.items()}
        return _DEFINITION.format(
            lanes=lanes, any="%any = or i1 %unsure, false", **items, **constants
        )
    kinds = {name: f"<{count} x {item}>" for name, item in items.items()}
    constants = {name: f"splat ({item} {number})" for name, (item, number) in numbers.items()}
    reduction = f"%any = call i1 @llvm.vector.reduce.or.{lanes}i1({kinds['bit']} %unsure)"
    return _DEFINITION.format(lanes=lanes, any=reduction, **kinds, **constants)
