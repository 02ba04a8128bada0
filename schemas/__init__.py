"""Every contract: pydantic models for documents, pandera schemas for tables."""
