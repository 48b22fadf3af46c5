"""Multiply-adds of float32 that round once, for instruction sets without such an instruction.

`exact` replaces `llvm.fmuladd` in LLVM text.  The product of two float32 is exact in float64.  The
sum is rounded to odd: Knuth's TwoSum gives its error, whose sign tells which neighbour is nearer to
zero, and the odd one of the two is taken if there is an error.  Rounded from there to float32 it is
what `fma` gives, as float64 has more than two bits more than float32.
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
  %added = fsub {wide} %sum, %product
  %kept = fsub {wide} %sum, %added
  %left = fsub {wide} %product, %kept
  %lost = fsub {wide} %wide.z, %added
  %error = fadd {wide} %left, %lost
  %inexact = fcmp one {wide} %error, zeroinitializer
  %mask = sext {bit} %inexact to {word}
  %bits = bitcast {wide} %sum to {word}
  %error.bits = bitcast {wide} %error to {word}
  %signs = xor {word} %bits, %error.bits
  %opposite = icmp slt {word} %signs, zeroinitializer
  %away = sext {bit} %opposite to {word}
  %step = and {word} %away, %mask
  %odd = lshr {word} %mask, {shift}
  %toward.zero = add {word} %bits, %step
  %rounded = or {word} %toward.zero, %odd
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
    real, wide, word, bit = (
        f"<{count} x {item}>" if count else item for item in ("float", "double", "i64", "i1")
    )
    shift = "splat (i64 63)" if count else "63"
    return _DEFINITION.format(real=real, wide=wide, word=word, bit=bit, lanes=lanes, shift=shift)
