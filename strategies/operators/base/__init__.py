"""The base of every structure: the operator, memory, exact integers, factorisations."""
