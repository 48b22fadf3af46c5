"""The grammar of NNEF: lexer, parser, syntax tree, printer."""
