"""View models, charts, templates and exporters of what people read."""
