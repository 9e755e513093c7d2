"""Engine adapters: pure files that turn a recipe into a launch plan and counters into numbers."""
