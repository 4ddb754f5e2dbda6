"""Whatever bytes come, an answer or a refusal: see `targets`. `make fuzz` runs them under atheris."""
