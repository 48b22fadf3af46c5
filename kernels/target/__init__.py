"""The target machine: `isa` has a row per instruction set; `processor` identifies this one."""
