"""The operations of the IR: one `OpSpec` each, in tables by origin."""
