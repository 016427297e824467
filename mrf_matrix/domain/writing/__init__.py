"""Ways to write a domain: shorthand of files, words of a terminal, schemas of other tools."""
