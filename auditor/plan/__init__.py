"""What is asked: plans, names of members, systems and data from their names."""
