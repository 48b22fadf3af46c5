"""The operators, by kind; each module registers functions under ATen's names."""
