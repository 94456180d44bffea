"""Authorization: questions, their evaluation, and what is refused."""
