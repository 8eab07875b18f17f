"""Stream processing: delays of flights, joined with weather and aircraft."""
