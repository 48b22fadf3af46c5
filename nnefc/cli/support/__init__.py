"""Options, inputs, models, artifacts, tables and measurements that commands share."""
