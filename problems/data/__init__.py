"""Data of the problem files: twins that the project made itself, and measured recordings as `convert` writes them."""
