"""Programs that people run: real models on real data."""
