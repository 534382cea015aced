"""What is asked of a declared problem beyond one fit: simulation, profiles, cross-validation, audits, sweeps."""
