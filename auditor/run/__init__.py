"""An audit at work: tasks, what they take, what is kept of them."""
