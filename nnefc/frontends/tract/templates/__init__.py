"""Documents that are templates: what stands in `{{ }}` and `{% %}` is evaluated before parsing.

tract renders them with minijinja.  The language is that of Jinja, whose parser (`jinja2`) makes the
tree; it is evaluated here, as minijinja does it, and not by that package: nothing can be reached
from a template but the JSON files beside the document, and each step and each character is counted.
"""
