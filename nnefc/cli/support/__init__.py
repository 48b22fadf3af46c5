"""Options, inputs, models, artifacts, tables and measurements that several commands share."""
