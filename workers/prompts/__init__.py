"""The prompt library: our own texts in five classes, made into prompts of an exact length."""
