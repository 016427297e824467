"""Kinds of model, a file each: what is announced, what is asked, and what is learned."""
