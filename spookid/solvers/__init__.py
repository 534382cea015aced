"""Solvers of transcribed problems. They see a Transcription and know neither bodies nor recordings."""
