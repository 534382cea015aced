"""From a declared problem to a transcription and a start, and from a solver's unknowns back to motion."""
