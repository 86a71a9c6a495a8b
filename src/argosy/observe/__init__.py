"""What people see of a run: its story, the report, the model card, metrics for other tools."""
