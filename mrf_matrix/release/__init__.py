"""The release of a plan: its steps, the curators who take them, and the transcript of outcomes."""
