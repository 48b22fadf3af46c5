"""Steps of operators that several front ends have, as operations of a graph."""
