"""What the accountants share."""
