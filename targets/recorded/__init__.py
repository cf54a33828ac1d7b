"""Recordings of a federated training's messages: file format, writer, and replay as a system."""
