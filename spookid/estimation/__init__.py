"""The fits that make an answer, and what is to be told of it."""
