"""From Python functions to linked code: `callee`, `translate`, `object_code`, then `linker`."""
