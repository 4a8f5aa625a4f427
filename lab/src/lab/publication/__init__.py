"""The publication study: WebSocket servers of many libraries under the same load."""
