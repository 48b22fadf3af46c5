"""Integers that record how they were computed from symbols (docs/design/dynamic.md)."""
