"""Estimates while data come in: a window of steps that moves along, and what has left it as information."""
