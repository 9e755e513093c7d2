"""Words and arithmetic of Slipstream. Standard library and pydantic only;
imports nothing of ours."""
