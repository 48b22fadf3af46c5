"""Documents that are templates: `{{ }}` and `{% %}` are rendered before the document is parsed.

tract renders them with minijinja.  `jinja2` parses the template, and this package evaluates the
syntax tree with minijinja's semantics.  A template can read only the JSON files beside the
document, and every step and character counts against the limits.
"""
