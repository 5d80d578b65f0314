"""Functions from DataFrame to DataFrame; what they read and write is up to the jobs."""
