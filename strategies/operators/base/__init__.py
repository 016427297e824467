"""What every structure stands on: the operator itself, memory, exact integers, factorisations."""
