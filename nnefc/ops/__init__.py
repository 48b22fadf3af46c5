"""The operations of the IR: one `OpSpec` each, in packages by origin."""
