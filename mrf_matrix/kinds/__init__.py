"""Kinds of model, a module each: its plan, its questions, and what it learns from the answers."""
