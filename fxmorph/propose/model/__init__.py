"""Questions to a language model, and what comes back."""
