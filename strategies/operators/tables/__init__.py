"""Tables over attributes of a product domain: marginals, and what they add to each other."""
