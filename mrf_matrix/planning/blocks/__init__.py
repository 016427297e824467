"""Blocks of attributes and how they are measured."""
