"""Activity tracking: page views of a web site, sessions and top pages."""
