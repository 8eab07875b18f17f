"""Properties: of brokers, topics and groups, as declared, as given, as changed while brokers run.

How one is declared is in `settings.py` beside this package. Start at `config.py`.
"""
