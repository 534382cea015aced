"""Measured signals, when they were sampled, and the sensors that say what they measure."""
