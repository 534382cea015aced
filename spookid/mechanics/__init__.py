"""Bodies, joints, loads and their mechanics as symbolic expressions. Knows no time step, no data and no solver."""
