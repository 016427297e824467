"""Lower bounds on the loss of every strategy."""
