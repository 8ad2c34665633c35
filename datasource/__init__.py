"""Where records live: formats, schema, decoding, views, writing. Imports nothing of loaders/ or samplers/."""
