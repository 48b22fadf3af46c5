"""Custom operators that converters write."""
